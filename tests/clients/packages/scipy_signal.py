"""Filter a noisy signal, and find its frequencies."""

import numpy as np
from scipy import fft, signal


def main():
    rng = np.random.default_rng(5)
    rate = 1_000.0
    t = np.arange(5_000) / rate
    clean = np.sin(2 * np.pi * 12 * t) + 0.5 * np.sin(2 * np.pi * 80 * t)
    noisy = clean + 0.4 * rng.standard_normal(t.shape)
    b, a = signal.butter(4, 30, fs=rate)
    smooth = signal.filtfilt(b, a, noisy)
    print(np.round(np.sqrt(np.mean((smooth - np.sin(2 * np.pi * 12 * t)) ** 2)), 5))
    frequencies, power = signal.welch(noisy, rate, nperseg=1024)
    peaks, _ = signal.find_peaks(power, height=0.01)
    print(np.round(frequencies[peaks], 3))
    spectrum = np.abs(fft.rfft(noisy))
    print(np.round(fft.rfftfreq(t.size, 1 / rate)[np.argsort(spectrum)[-2:]], 3))
    sos = signal.cheby1(6, 1, [60, 100], btype="bandpass", fs=rate, output="sos")
    band = signal.sosfilt(sos, noisy)
    print(np.round(np.std(band), 5))
    window = signal.windows.hann(51)
    print(np.round(np.convolve(noisy, window / window.sum(), mode="same")[::500], 4))
    print(np.round(signal.detrend(np.cumsum(noisy))[::1000], 3))
    _, _, sxx = signal.spectrogram(noisy, rate)
    print(sxx.shape, np.round(10 * np.log10(sxx.mean(axis=1))[:4], 3))


if __name__ == "__main__":
    main()
