"""Generators of the documentation site's pages."""
