"""A pipeline for regression, with cross-validation."""

import numpy as np
from sklearn.linear_model import LassoCV, LinearRegression, Ridge
from sklearn.metrics import mean_squared_error, r2_score
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler


def main():
    rng = np.random.default_rng(16)
    x = rng.uniform(-3, 3, size=(500, 3))
    y = np.sin(x[:, 0]) + 0.5 * x[:, 1] ** 2 - x[:, 2] + 0.1 * rng.standard_normal(500)
    train, test, y_train, y_test = train_test_split(x, y, test_size=0.3, random_state=0)
    model = make_pipeline(PolynomialFeatures(4), StandardScaler(), Ridge(alpha=0.1))
    model.fit(train, y_train)
    predicted = model.predict(test)
    print(np.round(mean_squared_error(y_test, predicted), 5), np.round(r2_score(y_test, predicted), 5))
    print(np.round(cross_val_score(model, x, y, cv=5), 4))
    line = LinearRegression().fit(np.c_[x[:, 0], x[:, 1] ** 2, x[:, 2]], y)
    print(np.round(line.coef_, 4), np.round(line.intercept_, 4))
    lasso = LassoCV(cv=5).fit(PolynomialFeatures(2).fit_transform(x), y)
    print(np.flatnonzero(np.abs(lasso.coef_) > 0.05), np.round(lasso.alpha_, 5))
    residual = y_test - predicted
    print(np.round(np.percentile(residual, [5, 50, 95]), 4))


if __name__ == "__main__":
    main()
