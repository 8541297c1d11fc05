"""Write and read a stack of images."""

import io

import numpy as np
import tifffile


def main():
    rng = np.random.default_rng(37)
    stack = rng.integers(0, 2**12, (8, 64, 80), dtype=np.uint16)
    file = io.BytesIO()
    tifffile.imwrite(file, stack, photometric="minisblack", metadata={"axes": "ZYX"})
    file.seek(0)
    back = tifffile.imread(file)
    print(back.shape, back.dtype, np.array_equal(back, stack))
    print(np.round(back.mean(axis=(1, 2)), 3))
    field = np.exp(-(np.linspace(-3, 3, 128)[:, None] ** 2) - np.linspace(-2, 2, 96) ** 2).astype(np.float32)
    file = io.BytesIO()
    tifffile.imwrite(file, field)
    file.seek(0)
    with tifffile.TiffFile(file) as opened:
        page = opened.pages[0]
        print(page.shape, page.dtype, np.round(page.asarray()[::32, 48], 5))


if __name__ == "__main__":
    main()
