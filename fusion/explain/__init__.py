"""Explanations of evaluations, as text and pictures, and reports of failures."""
