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
