// Runs printed CUDA text on the host: one OS thread per CUDA thread, one block at a time, so that the sanitizers of a
// C++ compiler see the kernel's own races and overruns. Define AMK_SHARED_BYTES (the kernel's exact dynamic shared
// memory) and include this before the text; then call amk_launch.
#pragma once
#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#define AMK_SHIM 1
#define __global__
#define __device__
#define __shared__
#define __forceinline__ inline
#define __noinline__
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(threads, blocks)

struct amk_dim { unsigned x, y, z; };
static thread_local amk_dim threadIdx, blockIdx;
static amk_dim gridDim;

// Shared memory, and behind it a zone that AddressSanitizer guards (it adds none to arrays of so large an alignment).
#ifdef __SANITIZE_ADDRESS__
extern "C" void __asan_poison_memory_region(void const volatile*, unsigned long);
static void amk_guard(void const* p, unsigned long n) { __asan_poison_memory_region(p, n); }
#else
static void amk_guard(void const*, unsigned long) {}
#endif
alignas(1024) unsigned char smem[AMK_SHARED_BYTES + 4096];

// Barriers: one for the block, one for each warp.
static pthread_barrier_t amk_block_barrier, amk_warp_barriers[32];
static unsigned amk_threads;
static inline void __syncthreads() { pthread_barrier_wait(&amk_block_barrier); }
static inline void __syncwarp() { pthread_barrier_wait(&amk_warp_barriers[threadIdx.x / 32]); }

// Shuffles: every lane writes its value, all meet, every lane reads, all meet again.
static long long amk_slots[32][32];
template <typename T> static T amk_exchange(T value, int from) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  std::memcpy(&amk_slots[warp][lane], &value, sizeof value);
  __syncwarp();
  if (from >= 0 && from < 32 && warp * 32 + from < amk_threads) std::memcpy(&value, &amk_slots[warp][from], sizeof value);
  __syncwarp();
  return value;
}
template <typename T> static T __shfl_down_sync(unsigned, T v, int d) { return amk_exchange(v, threadIdx.x % 32 + d); }
template <typename T> static T __shfl_up_sync(unsigned, T v, int d) { return amk_exchange(v, (int)(threadIdx.x % 32) - d); }
template <typename T> static T __shfl_xor_sync(unsigned, T v, int m) { return amk_exchange(v, threadIdx.x % 32 ^ m); }
template <typename T> static T __shfl_sync(unsigned, T v, int lane) { return amk_exchange(v, lane & 31); }

static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

static inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Atomics: one lock for all of them.
static pthread_mutex_t amk_lock = PTHREAD_MUTEX_INITIALIZER;
template <typename T, typename F> static T amk_update(T* p, F f) {
  pthread_mutex_lock(&amk_lock);
  const T old = *p;
  *p = f(old);
  pthread_mutex_unlock(&amk_lock);
  return old;
}
template <typename T> static T atomicAdd(T* p, T v) { return amk_update(p, [v](T x) { return x + v; }); }
template <typename T> static T atomicMin(T* p, T v) { return amk_update(p, [v](T x) { return x < v ? x : v; }); }
template <typename T> static T atomicMax(T* p, T v) { return amk_update(p, [v](T x) { return x > v ? x : v; }); }

// cp.async: the bytes arrive as late as they may, when a wait demands their group or the thread ends, so that a wait
// that is missing or too weak lets the kernel read what was there before.
struct amk_copy { void* dst; const void* src; int bytes; bool when; };
static thread_local std::deque<std::vector<amk_copy>> amk_groups;
static thread_local std::vector<amk_copy> amk_open;
template <int N> static void amk_cp_async(void* dst, const void* src, bool when) {
  amk_open.push_back({dst, src, N, when});
}
static inline void amk_commit_group() { amk_groups.push_back(std::move(amk_open)), amk_open.clear(); }
static inline void amk_land(const amk_copy& c) {
  typedef unsigned word __attribute__((may_alias));
  for (int i = 0; i < c.bytes / 4; ++i) ((word*)c.dst)[i] = c.when ? ((const word*)c.src)[i] : 0u;
}
template <int N> static void amk_wait_group() {
  for (; amk_groups.size() > N; amk_groups.pop_front())
    for (const auto& copy : amk_groups.front()) amk_land(copy);
}

template <typename Kernel> static void amk_block(unsigned threads, amk_dim block, Kernel kernel) {
  pthread_barrier_init(&amk_block_barrier, nullptr, amk_threads = threads);
  const unsigned warps = (threads + 31) / 32;
  for (unsigned w = 0; w < warps; ++w)
    pthread_barrier_init(&amk_warp_barriers[w], nullptr, w + 1 < warps ? 32 : threads - 32 * w);
  amk_guard(smem + AMK_SHARED_BYTES, sizeof smem - AMK_SHARED_BYTES);
  std::memset(smem, 0xff, AMK_SHARED_BYTES);  // NaN, for what is read before it is written
  std::vector<std::thread> all;
  for (unsigned i = 0; i < threads; ++i)
    all.emplace_back([=] { threadIdx = {i, 0, 0}; blockIdx = block; kernel(); amk_commit_group(); amk_wait_group<0>(); });
  for (auto& one : all) one.join();
  for (unsigned w = 0; w < warps; ++w) pthread_barrier_destroy(&amk_warp_barriers[w]);
  pthread_barrier_destroy(&amk_block_barrier);
}

// An array aligned as a tensor is, with nothing behind its last element.
static float* amk_floats(long n) {
  void* p = nullptr;
  return posix_memalign(&p, 16, 4 * n) ? nullptr : (float*)p;
}

// Every block of the grid, one after another.
template <typename Kernel> static void amk_launch(unsigned threads, amk_dim grid, Kernel kernel) {
  gridDim = grid;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) amk_block(threads, {x, y, z}, kernel);
}
