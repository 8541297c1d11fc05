"""Draw an image with OpenCV, and find shapes in the image."""

import cv2
import numpy as np


def main() -> None:
    rows, columns = np.mgrid[0:240, 0:320]
    image = np.zeros((240, 320, 3), np.uint8)
    image[..., 0] = columns * 255 // 319
    image[..., 1] = rows * 255 // 239

    corners = np.array([[200, 40], [290, 60], [240, 150]], np.int32)
    cv2.circle(image, (90, 120), 40, (255, 255, 255), -1)
    cv2.fillPoly(image, [corners], (200, 200, 255))
    print(image.sum(), image[120, 90], image[70, 240])

    gray = image.mean(axis=2).astype(np.uint8)
    blurred = cv2.GaussianBlur(gray, (5, 5), 1.2)
    level, mask = cv2.threshold(blurred, gray.max() - 60, 255, cv2.THRESH_BINARY)
    shapes, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    print(level, sorted(cv2.contourArea(shape) for shape in shapes))

    shift = np.array([[1, 0, 30], [0, 1, -20]], np.float32)
    print(cv2.warpAffine(image, shift, (320, 240)).sum(), cv2.calcHist([image], [0], None, [4], [0, 256]).ravel())
    print(cv2.createCLAHE(2.0, (8, 8)).apply(gray).sum(), cv2.merge([gray, blurred, mask]).shape)

    tracker = cv2.KalmanFilter(2, 1)
    tracker.transitionMatrix = np.array([[1, 1], [0, 1]], np.float32)
    tracker.measurementMatrix = np.array([[1, 0]], np.float32)
    tracker.processNoiseCov = np.eye(2, dtype=np.float32) * 0.25
    for position in np.arange(5, dtype=np.float32):
        tracker.predict()
        tracker.correct(position.reshape(1, 1))
    print(tracker.statePost.shape)


if __name__ == "__main__":
    main()
