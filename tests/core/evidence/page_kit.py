"""Pages taken apart by a parser that knows nothing of how they were made; hostile text."""

from __future__ import annotations

from html.parser import HTMLParser

HOSTILE = (
    "</script><script>alert(1)</script><style>*{display:none}</style></style></pre></details>"
    "<img src=x onerror=alert(1)> \" onmouseover=\"alert(1)' x='<!-- ]]> &lt;b&gt; &#60;"
    "<svg onload=alert(1)></title><base href='http://evil.example/'>\x00\x1b[31m\u202e\u2066\udc80"
)


class Elements(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, dict(attributes)))
        self.open.append(name)

    def handle_startendtag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, dict(attributes)))

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name

    def handle_data(self, text: str) -> None:
        self.text += text

    @property
    def shape(self) -> list[str]:
        """The elements without those that make unprintable characters visible."""
        return [name for name, given in self.elements if given.get("class") not in ("esc", "cut")]
