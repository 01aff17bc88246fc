"use strict";
// Comfort only: everything can be read without it.
(function () {
  // A click on a column's head sorts its table by the numbers in data-value, else by the text.
  document.querySelectorAll("table.sortable").forEach(function (table) {
    table.querySelectorAll("thead th").forEach(function (head, column) {
      head.setAttribute("data-sort", "");
      head.addEventListener("click", function () {
        var up = head.getAttribute("aria-sort") === "descending";
        var rows = Array.from(table.tBodies[0].rows);
        function key(row) {
          var cell = row.cells[column];
          var value = cell ? cell.getAttribute("data-value") : null;
          return value === null ? (cell ? cell.textContent : "") : Number(value);
        }
        rows.sort(function (a, b) {
          var x = key(a), y = key(b);
          var order = typeof x === "number" && typeof y === "number"
            ? x - y : String(x).localeCompare(String(y));
          return up ? order : -order;
        });
        table.querySelectorAll("thead th").forEach(function (h) { h.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        rows.forEach(function (row) { table.tBodies[0].appendChild(row); });
      });
    });
  });
  // A link into a closed part opens it.
  function reveal() {
    var target = location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
    for (var each = target; each; each = each.parentElement) {
      if (each.tagName === "DETAILS") { each.open = true; }
    }
    if (target) { target.scrollIntoView(); }
  }
  window.addEventListener("hashchange", reveal);
  reveal();
  // A live report loads itself again, and keeps what was open and where one was.
  var every = Number(document.body.getAttribute("data-reload"));
  var memory = "whale-report " + location.pathname;
  if (every > 0) {
    try {
      var kept = JSON.parse(sessionStorage.getItem(memory) || "null");
      if (kept) {
        kept.open.forEach(function (id) {
          var part = document.getElementById(id);
          if (part) { part.open = true; }
        });
        window.scrollTo(0, kept.top);
      }
    } catch (error) { /* storage is switched off: the page starts at its top */ }
    setTimeout(function () {
      var open = Array.from(document.querySelectorAll("details[open][id]"), function (d) { return d.id; });
      try {
        sessionStorage.setItem(memory, JSON.stringify({ open: open, top: window.scrollY }));
      } catch (error) { /* as above */ }
      location.reload();
    }, 1000 * every);
  }
})();
