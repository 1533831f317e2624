"""One session as one HTML file: no outside reference, foreign text inert, readable without a server."""

from codeagent.ui.report.page import render_html

__all__ = ["render_html"]
