"""Denoise a signal with wavelets, and transform an image."""

import numpy as np
import pywt


def main():
    rng = np.random.default_rng(34)
    t = np.linspace(0, 1, 1_024)
    clean = np.sin(4 * np.pi * t) + (t > 0.4) * (t < 0.6)
    noisy = clean + 0.2 * rng.standard_normal(t.size)
    levels = pywt.wavedec(noisy, "db4", level=5)
    sigma = np.median(np.abs(levels[-1])) / 0.6745
    limit = sigma * np.sqrt(2 * np.log(t.size))
    levels[1:] = [pywt.threshold(part, limit, mode="soft") for part in levels[1:]]
    found = pywt.waverec(levels, "db4")
    print(np.round([sigma, np.sqrt(np.mean((found - clean) ** 2))], 5))
    print([len(part) for part in levels], np.round(found[::200], 4))
    image = np.add.outer(np.sin(8 * t[:128]), np.cos(9 * t[:128]))
    approximation, (horizontal, vertical, diagonal) = pywt.dwt2(image, "haar")
    print(approximation.shape, np.round(np.abs(diagonal).max(), 6), np.round(horizontal[::32, 0], 5))
    back = pywt.idwt2((approximation, (horizontal, vertical, diagonal)), "haar")
    print(np.allclose(back, image))
    scales = np.geomspace(2, 64, 12)
    coefficients, frequencies = pywt.cwt(noisy, scales, "morl", sampling_period=t[1] - t[0])
    print(coefficients.shape, np.round(frequencies[::4], 3), np.round(np.abs(coefficients).max(axis=1)[::4], 4))


if __name__ == "__main__":
    main()
