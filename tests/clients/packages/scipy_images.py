"""Smooth, threshold, label and measure blobs."""

import numpy as np
from scipy import ndimage


def main():
    rng = np.random.default_rng(10)
    image = np.zeros((256, 256))
    positions = rng.integers(0, 256, (64, 2))
    image[positions[:, 0], positions[:, 1]] = 1
    image = ndimage.gaussian_filter(image, sigma=256 / 40)
    mask = image > image.mean()
    labels, count = ndimage.label(mask)
    sizes = ndimage.sum(mask, labels, np.arange(1, count + 1))
    print(count, np.sort(sizes)[-5:])
    centres = np.array(ndimage.center_of_mass(mask, labels, np.arange(1, count + 1)))
    print(np.round(centres[:4], 3))
    small = np.concatenate([[0], sizes]) < 200
    mask[small[labels]] = 0
    print(mask.sum(), np.unique(labels[mask]).size)
    edges = np.hypot(ndimage.sobel(image, 0), ndimage.sobel(image, 1))
    print(np.round(1e3 * edges.max(), 4))
    turned = ndimage.rotate(image, 30, reshape=False, order=1)
    print(np.round(1e3 * turned[::64, ::64], 4))
    distance = ndimage.distance_transform_edt(mask)
    print(np.round(distance.max(), 4), np.round(ndimage.median_filter(image, 5)[128, ::64] * 1e3, 4))


if __name__ == "__main__":
    main()
