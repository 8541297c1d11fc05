// The programs of the benchmark, written by hand in CUDA C++, with a C interface that Python loads.
// Each run_* function takes device pointers and a size, and starts its kernels in the default stream. `finish` waits
// for the kernels.
// Compiled without fast math and without contraction, like the other implementations.

#include <cuda_runtime.h>

#define EXPORT extern "C"
#define FULL 0xffffffffu

static int blocks_for(long items, int per_block, int most = 1 << 30) {
    long blocks = (items + per_block - 1) / per_block;
    return (int)(blocks < most ? (blocks > 0 ? blocks : 1) : most);
}

EXPORT void *device_memory(size_t bytes) {
    void *p = nullptr;
    return cudaMalloc(&p, bytes ? bytes : 1) == cudaSuccess ? p : nullptr;
}
EXPORT void release(void *p) { cudaFree(p); }
EXPORT int to_device(void *to, const void *from, size_t bytes) { return cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice); }
EXPORT int to_host(void *to, const void *from, size_t bytes) { return cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost); }
EXPORT int finish() { return cudaDeviceSynchronize(); }

// -- elementwise ------------------------------------------------------------------------------------------

__global__ void axpy_chain(const float4 *a, const float4 *b, const float4 *c, const float4 *x, float4 *out, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = a[i], q = b[i], r = c[i], v = x[i];
    out[i] = make_float4(p.x * v.x + q.x * v.x * v.x - r.x, p.y * v.y + q.y * v.y * v.y - r.y,
                         p.z * v.z + q.z * v.z * v.z - r.z, p.w * v.w + q.w * v.w * v.w - r.w);
}
__global__ void axpy_tail(const float *a, const float *b, const float *c, const float *x, float *out, long from, long n) {
    long i = from + threadIdx.x;
    if (i < n) out[i] = a[i] * x[i] + b[i] * x[i] * x[i] - c[i];
}
EXPORT void run_axpy_chain(const float **in, float **out, long n) {
    long quads = n / 4;
    if (quads)
        axpy_chain<<<blocks_for(quads, 256), 256>>>((const float4 *)in[0], (const float4 *)in[1], (const float4 *)in[2],
                                                    (const float4 *)in[3], (float4 *)out[0], quads);
    if (n % 4) axpy_tail<<<1, 32>>>(in[0], in[1], in[2], in[3], out[0], 4 * quads, n);
}

__device__ float cumulative(float d) {
    float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    float series = k * (0.319381530f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
    float tail = 0.3989422804014327f * expf(-0.5f * d * d) * series;
    return d > 0.0f ? 1.0f - tail : tail;
}
__global__ void black_scholes(const float *price, const float *strike, const float *years, float *call, float *put, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float rate = 0.02f, volatility = 0.3f;
    float s = price[i], x = strike[i], t = years[i];
    float spread = volatility * sqrtf(t);
    float d1 = (logf(s / x) + (rate + 0.5f * volatility * volatility) * t) / spread;
    float n1 = cumulative(d1), n2 = cumulative(d1 - spread);
    float discounted = x * expf(-rate * t);
    call[i] = s * n1 - discounted * n2;
    put[i] = discounted * (1.0f - n2) - s * (1.0f - n1);
}
EXPORT void run_black_scholes(const float **in, float **out, long n) {
    black_scholes<<<blocks_for(n, 256), 256>>>(in[0], in[1], in[2], out[0], out[1], n);
}

__global__ void mandelbrot(const float *re, const float *im, float *out, int n) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column >= n) return;
    float a = re[column], b = im[row], x = a, y = b, steps = 0.0f;
    for (int k = 0; k < 20; ++k) {
        float xx = x * x, yy = y * y;
        if (xx + yy <= 4.0f) {
            y = 2.0f * x * y + b;
            x = xx - yy + a;
            steps += 1.0f;
        }
    }
    out[(long)row * n + column] = steps;
}
EXPORT void run_mandelbrot(const float **in, float **out, long n) {
    mandelbrot<<<dim3(blocks_for(n, 256), (unsigned)n), 256>>>(in[0], in[1], out[0], (int)n);
}

// -- reductions -------------------------------------------------------------------------------------------

__device__ float sum_of_block(float value) {
    __shared__ float part[33];
    for (int k = 16; k; k /= 2) value += __shfl_xor_sync(FULL, value, k);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        value = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0.0f;
        for (int k = 16; k; k /= 2) value += __shfl_xor_sync(FULL, value, k);
        if (threadIdx.x == 0) part[32] = value;
    }
    __syncthreads();
    value = part[32];
    __syncthreads();
    return value;
}
__device__ float max_of_block(float value) {
    __shared__ float part[33];
    for (int k = 16; k; k /= 2) value = fmaxf(value, __shfl_xor_sync(FULL, value, k));
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        value = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : part[0];
        for (int k = 16; k; k /= 2) value = fmaxf(value, __shfl_xor_sync(FULL, value, k));
        if (threadIdx.x == 0) part[32] = value;
    }
    __syncthreads();
    value = part[32];
    __syncthreads();
    return value;
}

#define PARTS 1056
static float *partial_sums() {
    static float *memory = (float *)device_memory(PARTS * sizeof(float));
    return memory;
}
__global__ void squared_differences(const float4 *x, const float4 *y, float *parts, long n) {
    float sums[4] = {0, 0, 0, 0};
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += (long)gridDim.x * blockDim.x) {
        float4 a = x[i], b = y[i];
        float d0 = a.x - b.x, d1 = a.y - b.y, d2 = a.z - b.z, d3 = a.w - b.w;
        sums[0] += d0 * d0, sums[1] += d1 * d1, sums[2] += d2 * d2, sums[3] += d3 * d3;
    }
    float total = sum_of_block((sums[0] + sums[1]) + (sums[2] + sums[3]));
    if (threadIdx.x == 0) parts[blockIdx.x] = total;
}
__global__ void squared_end(const float *parts, int count, const float *x, const float *y, long from, long n, float *out) {
    float total = 0;
    for (int k = threadIdx.x; k < count; k += blockDim.x) total += parts[k];
    if (threadIdx.x == 0)
        for (long i = from; i < n; ++i) total += (x[i] - y[i]) * (x[i] - y[i]);
    total = sum_of_block(total);
    if (threadIdx.x == 0) out[0] = total;
}
EXPORT void run_squared_differences(const float **in, float **out, long n) {
    int count = blocks_for(n / 4, 1024, PARTS);
    squared_differences<<<count, 256>>>((const float4 *)in[0], (const float4 *)in[1], partial_sums(), n / 4);
    squared_end<<<1, 256>>>(partial_sums(), count, in[0], in[1], n / 4 * 4, n, out[0]);
}

// Each of 256 threads keeps 16 floats of a row in registers. Longer rows are read again.
#define HELD 16
__global__ void softmax(const float *x, float *out, int n) {
    const float *row = x + (long)blockIdx.x * n;
    float held[HELD], top = -INFINITY, total = 0;
#pragma unroll
    for (int k = 0; k < HELD; ++k) {
        int i = k * 256 + threadIdx.x;
        held[k] = i < n ? row[i] : -INFINITY;
        top = fmaxf(top, held[k]);
    }
    for (int i = HELD * 256 + threadIdx.x; i < n; i += 256) top = fmaxf(top, row[i]);
    top = max_of_block(top);
#pragma unroll
    for (int k = 0; k < HELD; ++k) total += held[k] = expf(held[k] - top);
    for (int i = HELD * 256 + threadIdx.x; i < n; i += 256) total += expf(row[i] - top);
    total = sum_of_block(total);
#pragma unroll
    for (int k = 0; k < HELD; ++k) {
        int i = k * 256 + threadIdx.x;
        if (i < n) out[(long)blockIdx.x * n + i] = held[k] / total;
    }
    for (int i = HELD * 256 + threadIdx.x; i < n; i += 256) out[(long)blockIdx.x * n + i] = expf(row[i] - top) / total;
}
EXPORT void run_softmax(const float **in, float **out, long n) { softmax<<<(int)n, 256>>>(in[0], out[0], (int)n); }

__global__ void layer_norm(const float *x, float *out, int n) {
    const float *row = x + (long)blockIdx.x * n;
    float held[HELD], total = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < HELD; ++k) {
        int i = k * 256 + threadIdx.x;
        held[k] = i < n ? row[i] : 0.0f;
        total += held[k];
    }
    for (int i = HELD * 256 + threadIdx.x; i < n; i += 256) total += row[i];
    float mean = sum_of_block(total) / n;
#pragma unroll
    for (int k = 0; k < HELD; ++k) {
        held[k] -= mean;
        if (k * 256 + threadIdx.x < n) squares += held[k] * held[k];
    }
    for (int i = HELD * 256 + threadIdx.x; i < n; i += 256) squares += (row[i] - mean) * (row[i] - mean);
    float root = sqrtf(sum_of_block(squares) / n + 1e-5f);
#pragma unroll
    for (int k = 0; k < HELD; ++k) {
        int i = k * 256 + threadIdx.x;
        if (i < n) out[(long)blockIdx.x * n + i] = held[k] / root;
    }
    for (int i = HELD * 256 + threadIdx.x; i < n; i += 256) out[(long)blockIdx.x * n + i] = (row[i] - mean) / root;
}
EXPORT void run_layer_norm(const float **in, float **out, long n) { layer_norm<<<(int)n, 256>>>(in[0], out[0], (int)n); }

// -- neighbours, transposes, pairs --------------------------------------------------------------------------

__global__ void jacobi(const float *from, float *to, int n) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= n || row >= n) return;
    long i = (long)row * n + column;
    bool inside = row > 0 && row < n - 1 && column > 0 && column < n - 1;
    to[i] = inside ? 0.2f * (from[i] + from[i - n] + from[i + n] + from[i - 1] + from[i + 1]) : from[i];
}
EXPORT void run_jacobi(const float **in, float **out, long n) {
    dim3 block(64, 4), grid(blocks_for(n, 64), blocks_for(n, 4));
    // out[1] is working memory: ten steps end in out[0]
    jacobi<<<grid, block>>>(in[0], out[1], (int)n);
    for (int step = 1; step < 10; ++step)
        jacobi<<<grid, block>>>(step % 2 ? out[1] : out[0], step % 2 ? out[0] : out[1], (int)n);
}

__global__ void add_transposed(const float *a, const float *b, float *out, int n) {
    __shared__ float tile[32][33];
    int column = blockIdx.y * 32 + threadIdx.x, row = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (column < n && row + k < n) tile[threadIdx.y + k][threadIdx.x] = b[(long)(row + k) * n + column];
    __syncthreads();
    column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (column < n && row + k < n) {
            long i = (long)(row + k) * n + column;
            out[i] = a[i] + tile[threadIdx.x][threadIdx.y + k];
        }
}
EXPORT void run_add_transposed(const float **in, float **out, long n) {
    add_transposed<<<dim3(blocks_for(n, 32), blocks_for(n, 32)), dim3(32, 8)>>>(in[0], in[1], out[0], (int)n);
}

__global__ void distances(const float *x, const float *y, float *out, int n) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column >= n) return;
    float a = x[3 * row] - y[3 * column], b = x[3 * row + 1] - y[3 * column + 1], c = x[3 * row + 2] - y[3 * column + 2];
    out[(long)row * n + column] = sqrtf(a * a + b * b + c * c);
}
EXPORT void run_distances(const float **in, float **out, long n) {
    distances<<<dim3(blocks_for(n, 256), (unsigned)n), 256>>>(in[0], in[1], out[0], (int)n);
}

// -- the explicit kernels of benchmarks/explicit.py ----------------------------------------------------------

__global__ void n_body(const float *x, const float *y, const float *z, float *out, int n) {
    __shared__ float px[256], py[256], pz[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    float xi = i < n ? x[i] : 0, yi = i < n ? y[i] : 0, zi = i < n ? z[i] : 0, total = 0;
    for (int start = 0; start < n; start += 256) {
        int j = start + threadIdx.x;
        px[threadIdx.x] = j < n ? x[j] : 1e18f;
        py[threadIdx.x] = j < n ? y[j] : 1e18f;
        pz[threadIdx.x] = j < n ? z[j] : 1e18f;
        __syncthreads();
        for (int k = 0; k < 256; ++k) {
            float a = px[k] - xi, b = py[k] - yi, c = pz[k] - zi;
            total += 1.0f / sqrtf(a * a + b * b + c * c + 1e-3f);
        }
        __syncthreads();
    }
    if (i < n) out[i] = total;
}
EXPORT void run_n_body(const float **in, float **out, long n) {
    n_body<<<blocks_for(n, 256), 256>>>(in[0], in[1], in[2], out[0], (int)n);
}

__global__ void matmul(const float *a, const float *b, float *out, int n) {
    __shared__ float left[16][16], right[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float total = 0;
    for (int start = 0; start < n; start += 16) {
        int i = start + threadIdx.x, j = start + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < n && i < n ? a[(long)row * n + i] : 0.0f;
        right[threadIdx.y][threadIdx.x] = j < n && column < n ? b[(long)j * n + column] : 0.0f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) total += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    if (row < n && column < n) out[(long)row * n + column] = total;
}
EXPORT void run_matmul(const float **in, float **out, long n) {
    matmul<<<dim3(blocks_for(n, 16), blocks_for(n, 16)), dim3(16, 16)>>>(in[0], in[1], out[0], (int)n);
}
EXPORT void run_vector_add(const float **in, float **out, long n);
__global__ void vector_add(const float *x, const float *y, float *out, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + y[i];
}
EXPORT void run_vector_add(const float **in, float **out, long n) {
    vector_add<<<blocks_for(n, 256), 256>>>(in[0], in[1], out[0], n);
}
__global__ void block_sums(const float *x, float *out, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    float total = sum_of_block(i < n ? x[i] : 0.0f);
    if (threadIdx.x == 0) out[blockIdx.x] = total;
}
EXPORT void run_block_sums(const float **in, float **out, long n) {
    block_sums<<<blocks_for(n, 256), 256>>>(in[0], out[0], n);
}
