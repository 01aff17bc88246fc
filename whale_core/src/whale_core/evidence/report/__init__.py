"""Reports: a run, or a comparison of runs, as one HTML file, or as Markdown, JSON or CSV."""
