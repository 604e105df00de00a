// vector_add for sm_80, printed by amk: change its descriptor, not this text.
extern "C" __global__ void __launch_bounds__(256, 1)
vector_add(const int n, const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ z) {
  const int t = threadIdx.x, bx = blockIdx.x;
  float a[1];
  float b[1];
  const int i = bx * 256 + t;  // kernels.py:21
  if (i < n) {  // kernels.py:22
    a[0] = x[i];  // kernels.py:23
    b[0] = y[i];  // kernels.py:24
    z[i] = a[0] + b[0];  // kernels.py:25
  }
}
