// vector_add for sm_80, printed by amk: change its descriptor, not this text.
extern "C" __global__ void __launch_bounds__(256, 1)
vector_add(const int n, const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ z) {
  const int t = threadIdx.x, bx = blockIdx.x;
  float a[1];
  float b[1];
  const int i = bx * 256 + t;
  if (i < n) {
    a[0] = x[i];
    b[0] = y[i];
    z[i] = a[0] + b[0];
  }
}
