"""Denoise, deform and compare an image."""

import numpy as np
from skimage import exposure, metrics, restoration, transform, util


def main():
    rng = np.random.default_rng(22)
    y, x = np.mgrid[0:1:128j, 0:1:128j]
    image = 0.5 + 0.3 * np.sin(12 * x) * np.cos(9 * y) + 0.1 * (x > 0.5)
    noisy = np.clip(image + 0.1 * rng.standard_normal(image.shape), 0, 1)
    tv = restoration.denoise_tv_chambolle(noisy, weight=0.1)
    bilateral = restoration.denoise_bilateral(noisy[:64, :64], sigma_color=0.1, sigma_spatial=2)
    for found in (noisy, tv):
        quality = metrics.peak_signal_noise_ratio(image, found, data_range=1)
        similarity = metrics.structural_similarity(image, found, data_range=1)
        print(np.round(quality, 4), np.round(similarity, 4))
    print(np.round(np.mean(np.abs(bilateral - image[:64, :64])), 5))
    half = transform.rescale(tv, 0.5, anti_aliasing=True)
    turned = transform.rotate(half, 20)
    print(half.shape, np.round(turned[::16, ::16], 4))
    equal = exposure.equalize_hist(noisy)
    print(np.round(np.histogram(equal, 5, (0, 1))[0] / equal.size, 3))
    bytes_ = util.img_as_ubyte(noisy)
    print(bytes_.dtype, int(bytes_.sum()), np.round(exposure.adjust_gamma(noisy, 2).mean(), 5))
    theta = np.linspace(0, 180, 60, endpoint=False)
    sinogram = transform.radon(image * ((x - 0.5) ** 2 + (y - 0.5) ** 2 < 0.24), theta)
    back = transform.iradon(sinogram, theta)
    print(sinogram.shape, np.round(back[32:96:16, 64], 3))


if __name__ == "__main__":
    main()
