import numpy as np, weft as wf, time
def test_sort():
    rng=np.random.default_rng(0)
    for dt,n in (("f4",200),("u1",5000)):
        x=rng.integers(0,99,n).astype(dt); a=wf.asarray(x)
        t=time.time()
        assert np.array_equal(wf.sort(a).numpy(),np.sort(x)); print(dt,n,time.time()-t)
        assert np.array_equal(wf.argsort(a).numpy(),np.argsort(x,kind="stable")); print(dt,n,time.time()-t)
    x=rng.standard_normal((33,20)).astype("f2"); assert np.array_equal(wf.sort(wf.asarray(x)).numpy(),np.sort(x)); print(time.time()-t)
