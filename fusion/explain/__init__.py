"""Explaining: what an evaluation would run and why, as text and pictures; reports of failures."""
