// block_sum for sm_80, printed by amk: change its descriptor, not this text.
// Checked builds: what fails is counted and left out, and the first to fail leaves its record (synth/fault_record.py).
struct amk_faults {
  unsigned long long count;
  long long index, limit;
  int kind, place, operand, dimension, thread, block[3];
};
__device__ __noinline__ bool amk_fault(amk_faults* f, int kind, int place, int operand, int dimension, long long index, long long limit) {
  if (atomicAdd(&f->count, 1ULL) == 0ULL) {
    f->index = index, f->limit = limit;
    f->kind = kind, f->place = place, f->operand = operand, f->dimension = dimension;
    f->thread = threadIdx.x, f->block[0] = blockIdx.x, f->block[1] = blockIdx.y, f->block[2] = blockIdx.z;
  }
  return false;
}
// Elements `index` to `index + width - 1` lie in a dimension (of a cluster: its blocks).
__device__ __forceinline__ bool amk_in(amk_faults* f, int place, int operand, int dimension, long long index, long long extent, int width) {
  const bool starts = index >= 0 && index < extent;
  return (starts && index <= extent - width) || amk_fault(f, 0, place, operand, dimension, starts ? extent : index, extent);
}
// So many bytes from `p` on are aligned and lie in the array that the launch was given, whose bytes are `low` to
// `high - 1` counted from `base`.
__device__ __forceinline__ bool amk_given(amk_faults* f, int place, int operand, const void* p, const void* base, long long low, long long high, int bytes, int align) {
  const unsigned long long address = (unsigned long long)p;
  const long long at = (long long)(address - (unsigned long long)base);
  if (address % align != 0) return amk_fault(f, 2, place, operand, -1, at, align);
  if (at < low) return amk_fault(f, 1, place, operand, -1, at, low);
  return at <= high - bytes || amk_fault(f, 1, place, operand, -1, at < high ? high : at, high);
}
// So many bytes from `at` on lie in a shared array of `size` bytes.
__device__ __forceinline__ bool amk_run(amk_faults* f, int place, int operand, long long at, int size, int bytes) {
  return (at >= 0 && at <= size - bytes) || amk_fault(f, 1, place, operand, -1, at < 0 || at >= size ? at : size, size);
}
__device__ __forceinline__ bool amk_aligned(amk_faults* f, int place, int operand, const void* p, int align) {
  return (unsigned long long)p % align == 0 || amk_fault(f, 2, place, operand, -1, 0, align);
}
// Neighbours along the last dimension are neighbours in memory.
__device__ __forceinline__ bool amk_dense(amk_faults* f, int place, int operand, long long stride, int bytes) {
  return stride == 1 || amk_fault(f, 2, place, operand, -1, stride, bytes);
}
__device__ __forceinline__ void amk_holds(amk_faults* f, int place, bool fact) {
  if (!fact) amk_fault(f, 3, place, -1, -1, 0, 0);
}
// A loop goes forward: one that does not has no turn.
__device__ __forceinline__ bool amk_forward(amk_faults* f, int place, long long step) {
  return step > 0 || amk_fault(f, 5, place, -1, -1, step, 0);
}
__device__ __forceinline__ void amk_size(amk_faults* f, int place, long long value, long long least, long long most, long long unit) {
  if (value < least || value > most || value % unit != 0) amk_fault(f, 4, place, -1, -1, value, 0);
}
extern "C" __global__ void __launch_bounds__(256, 1)
block_sum(const int n, const float* __restrict__ x, float* __restrict__ total, amk_faults* const faults_, const long long x_low_, const long long x_high_, const long long total_low_, const long long total_high_) {
  const int t = threadIdx.x, bx = blockIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  float* const parts = (float*)(smem + 0);
  float v[1];
  float w[1];
  amk_size(faults_, 0, n, 1LL, 2147418112LL, 1LL);
  v[0] = 0.0f;
  float acc = 0.0f;
  #pragma unroll 1
  for (int i = bx * 256 + t; i < n; i += 2048) {
    if (amk_in(faults_, 5, 1, 0, i, n, 1) && amk_given(faults_, 5, 1, &x[i], x, x_low_, x_high_, 4, 4)) { v[0] = x[i]; } else { v[0] = 0.0f; }
    acc = acc + v[0];
  }
  v[0] = acc;
  w[0] = __shfl_down_sync(0xffffffffu, v[0], 16);
  v[0] = v[0] + w[0];
  w[0] = __shfl_down_sync(0xffffffffu, v[0], 8);
  v[0] = v[0] + w[0];
  w[0] = __shfl_down_sync(0xffffffffu, v[0], 4);
  v[0] = v[0] + w[0];
  w[0] = __shfl_down_sync(0xffffffffu, v[0], 2);
  v[0] = v[0] + w[0];
  w[0] = __shfl_down_sync(0xffffffffu, v[0], 1);
  v[0] = v[0] + w[0];
  if (t % 32 < 1) {
    if (amk_in(faults_, 18, 0, 0, t / 32, 8, 1)) {
      parts[t / 32] = v[0];
    }
  }
  __syncthreads();
  if (t < 32) {
    v[0] = 0.0f;
    if (t < 8) {
      if (amk_in(faults_, 23, 1, 0, t, 8, 1)) { v[0] = parts[t]; } else { v[0] = 0.0f; }
    }
    w[0] = __shfl_down_sync(0xffffffffu, v[0], 4);
    v[0] = v[0] + w[0];
    w[0] = __shfl_down_sync(0xffffffffu, v[0], 2);
    v[0] = v[0] + w[0];
    w[0] = __shfl_down_sync(0xffffffffu, v[0], 1);
    v[0] = v[0] + w[0];
    if (t < 1) {
      if (amk_given(faults_, 31, 0, &total[0], total, total_low_, total_high_, 4, 4)) {
        atomicAdd(&total[0], v[0]);
      }
    }
  }
}
