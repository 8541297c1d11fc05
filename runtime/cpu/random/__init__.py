"""Native code that draws the same random numbers as NumPy's generators."""
