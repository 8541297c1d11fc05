"""Segment discs by thresholds and by watershed, and measure them."""

import numpy as np
from skimage import feature, filters, measure, morphology, segmentation


def main():
    rng = np.random.default_rng(21)
    y, x = np.mgrid[0:200, 0:200]
    image = 0.2 + 0.05 * rng.standard_normal((200, 200))
    for row in (40, 100, 160):
        for column in (45, 105, 165):
            image[(y - row) ** 2 + (x - column) ** 2 < (12 + row // 20) ** 2] += 0.6
    threshold = filters.threshold_otsu(image)
    mask = image > threshold
    mask = morphology.opening(mask, morphology.disk(2))
    labels = measure.label(mask)
    regions = measure.regionprops(labels, intensity_image=image)
    print(np.round(threshold, 5), len(regions))
    print([(int(r.area), np.round(r.centroid, 2).tolist()) for r in regions[:4]])
    print(np.round([r.mean_intensity for r in regions], 4))
    edges = feature.canny(image, sigma=3)
    print(int(edges.sum()))
    markers = np.zeros_like(image, dtype=int)
    markers[image < 0.3] = 1
    markers[image > 0.7] = 2
    found = segmentation.watershed(filters.sobel(image), markers)
    print(np.bincount(found.ravel()))
    print(np.round(measure.regionprops_table(labels, properties=("eccentricity",))["eccentricity"], 3))


if __name__ == "__main__":
    main()
