"""The documentation: pages in Markdown, and the programs that build a site from them (``python -m docs``)."""
