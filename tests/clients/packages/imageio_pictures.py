"""Write and read a picture and an animation."""

import io

import imageio.v3 as iio
import numpy as np


def main():
    y, x = np.mgrid[0:120, 0:160]
    picture = np.stack([x, y, (x + y) // 2], axis=-1).astype(np.uint8)
    data = iio.imwrite("<bytes>", picture, extension=".png")
    back = iio.imread(data, extension=".png")
    print(back.shape, back.dtype, np.array_equal(back, picture))
    gray = (back @ np.array([0.299, 0.587, 0.114])).astype(np.uint8)
    print(np.round(gray.mean(), 4), np.bincount(gray.ravel() // 32))
    frames = np.array([(x * k // 5 + y) % 256 for k in range(5)], dtype=np.uint8)
    file = io.BytesIO()
    iio.imwrite(file, frames, extension=".gif", plugin="pillow")
    shown = iio.imread(io.BytesIO(file.getvalue()), extension=".gif", plugin="pillow", index=None)
    print(shown.shape, int(shown[..., 0].astype(int).sum()))
    flipped = np.flip(picture, axis=0)
    data = iio.imwrite("<bytes>", flipped[:, :, 0], extension=".png")
    print(np.array_equal(iio.imread(data), picture[::-1, :, 0]))


if __name__ == "__main__":
    main()
