// transpose for sm_80, printed by amk: change its descriptor, not this text.
extern "C" __global__ void __launch_bounds__(256, 1)
transpose(const int rows, const int cols, const float* __restrict__ x, float* __restrict__ out) {
  const int t = threadIdx.x, bx = blockIdx.x, by = blockIdx.y;
  extern __shared__ __align__(1024) unsigned char smem[];
  float* const tile = (float*)(smem + 0);
  float v[1];
  const int lane = t % 32;
  const int warp = __shfl_sync(0xffffffffu, t / 32, 0);
  #pragma unroll
  for (int r = 0; r < 32; r += 8) {
    if (by * 32 + warp + r < rows && bx * 32 + lane < cols) {
      v[0] = x[(long long)(by * 32 + warp + r) * cols + (bx * 32 + lane)];
    } else {
      v[0] = 0.0f;
    }
    tile[(warp + r) * 33 + lane] = v[0];
  }
  __syncthreads();
  #pragma unroll
  for (int s = 0; s < 32; s += 8) {
    v[0] = tile[lane * 33 + (warp + s)];
    if (bx * 32 + warp + s < cols && by * 32 + lane < rows) {
      out[(long long)(bx * 32 + warp + s) * rows + (by * 32 + lane)] = v[0];
    }
  }
}
