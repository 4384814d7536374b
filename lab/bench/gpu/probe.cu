// Experiments with one GPU and its driver, of seconds each, without anything of Penstock's. Prints
// a JSON line for each figure. Built and run by gpu_run.py; by hand:
//
//   nvcc -O2 -std=c++17 -arch=native -cudart static -Xcompiler -mclwb,-mclflushopt -o probe
//   probe.cu
//     -lcuda
//   probe flush|hops|read|queue|small|spin [SECONDS]
//
// flush  time to write back a chunk that a copy engine has stored, by threads that take pieces of
// it hops   time of the calls and round trips that make up a small collective read   bandwidth of a
// kernel that reduces from host memory, by its loads under way, and of a
//        reduction in memory of the GPU behind a copy engine
// queue  operations that a waiting stream takes, and calls that are answered while it takes no more
// small  time of short copies: run it beside `spin` of another process, and alone
// spin   occupies all multiprocessors
#include <immintrin.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "probe.cuh"

namespace probe {

namespace {

constexpr std::size_t kilo = 1 << 10, mega = 1 << 20;

__global__ void nothing() {}

__global__ void spin_until(const volatile int* stops) {
  while (*stops == 0) __nanosleep(1000);
}

// ---- queue

struct Question {
  const char* name;
  std::function<void()> ask;
};

/// Each question is asked by a thread of its own, which may be blocked for as long as the queue is
/// full.
std::string answered_now(const std::vector<Question>& questions) {
  constexpr double patience = 0.1;
  std::string answers;
  for (const Question& question : questions) {
    const auto answered = std::make_shared<std::atomic<bool>>(false);
    std::thread([ask = question.ask, answered] {
      use_context();
      ask();
      *answered = true;
    }).detach();
    const double begin = now();
    while (!*answered && now() - begin < patience) usleep(200);
    answers += std::string(answers.empty() ? "" : ", ") + "\"" + question.name +
               "\": " + (*answered ? "true" : "false");
  }
  return answers;
}

/// Gives a waiting stream operations until it takes no more, or has taken `most`.
void fill_queue(const char* kind, const std::function<int(CUstream)>& give, char* host,
                const std::function<std::vector<Question>(CUstream)>& questions_of) {
  constexpr int most = 20000;
  constexpr double stands_still = 0.15;
  auto* const gate = reinterpret_cast<std::atomic<std::uint64_t>*>(host);
  gate->store(0);
  const CUstream filled = stream();
  CU(cuStreamWaitValue64(filled, on_gpu(host), 1, CU_STREAM_WAIT_VALUE_GEQ));
  std::atomic<int> taken{0};
  std::thread giver([&] {
    use_context();
    for (int i = 0; i < most; ++i, ++taken) CU(give(filled));
  });
  double since = now();
  for (int last = -1; taken < most && now() - since < stands_still; usleep(1000))
    if (taken != last) {
      last = taken;
      since = now();
    }
  const int held = taken;
  const std::string answers = held < most ? answered_now(questions_of(filled)) : "";
  gate->store(1);
  giver.join();
  synchronize(filled);
  usleep(20000);  // those that asked have been answered
  printf(
      "{\"probe\": \"queue\", \"kind\": \"%s\", \"taken\": %d, \"full\": %s, \"answered\": {%s}}\n",
      kind, held, held < most ? "true" : "false", answers.c_str());
  fflush(stdout);
  CU(cuStreamDestroy(filled));
}

void queue() {
  char* const host = shared_memory(mega);
  const CUdeviceptr device = device_memory(mega);
  const CUstream other = stream();
  CUevent event = nullptr;
  CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  const auto wait = [=](CUstream s) {
    return cuStreamWaitValue64(s, on_gpu(host) + 8 * kilo, 0, CU_STREAM_WAIT_VALUE_GEQ);
  };
  const auto write = [=](CUstream s) {
    return cuStreamWriteValue64(s, on_gpu(host) + 4 * kilo, 1, 0);
  };
  const auto copy = [=](CUstream s) {
    return cuMemcpyAsync(on_gpu(host) + 64 * kilo, device, 4 * kilo, s);
  };
  const auto questions = [&](CUstream filled) {
    return std::vector<Question>{
        {"query of that stream", [=] { cuStreamQuery(filled); }},
        {"query of another stream", [=] { cuStreamQuery(other); }},
        {"query of an event", [=] { cuEventQuery(event); }},
        {"word on another stream", [=] { write(other); }},
        {"kernel on another stream", [=] { nothing<<<1, 1, 0, other>>>(); }},
        {"copy on another stream", [=] { copy(other); }},
        {"push of the context",
         [=] {
           CUcontext popped = nullptr;
           cuCtxPushCurrent(context);
           cuCtxPopCurrent(&popped);
         }},
        {"new event",
         [=] {
           CUevent made = nullptr;
           if (cuEventCreate(&made, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) cuEventDestroy(made);
         }},
        {"allocation", [=] {
           CUdeviceptr made = 0;
           if (cuMemAlloc(&made, 4 * kilo) == CUDA_SUCCESS) cuMemFree(made);
         }}};
  };
  fill_queue("write value", write, host, questions);
  fill_queue("wait value", wait, host, questions);
  fill_queue("copy to the host", copy, host, questions);
  fill_queue(
      "event", [=](CUstream s) { return cuEventRecord(event, s); }, host, questions);
  const auto launch = [](CUstream s) {
    nothing<<<1, 1, 0, s>>>();
    return cudaGetLastError();
  };
  fill_queue("kernel", launch, host, questions);
  const auto of_chunk = [=](CUstream s) {
    const int status = wait(s) | copy(s);
    return status | write(s);
  };
  fill_queue("wait, copy and write", of_chunk, host, questions);
}

// ---- flush

enum class Writer { nobody, gpu, cpu };
const char* const writer_names[] = {"nobody", "the GPU", "the CPU"};

void write_back_piece(char* at, std::size_t bytes, bool keeps) {
  constexpr std::size_t line = 64;
  for (std::size_t i = 0; i < bytes; i += line)
    if (keeps)
      _mm_clwb(at + i);
    else
      _mm_clflushopt(at + i);
  _mm_sfence();
}

/// Threads take the pieces of a chunk in turn.
double write_back(char* at, std::size_t chunk, bool keeps, int threads) {
  constexpr std::size_t piece = 256 * kilo;
  std::atomic<std::size_t> next{0};
  const auto take = [&] {
    for (std::size_t i = next++; i * piece < chunk; i = next++)
      write_back_piece(at + i * piece, piece, keeps);
  };
  const double begin = now();
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(take);
  take();
  for (auto& one : others) one.join();
  return now() - begin;
}

void measure_flush(char* host, CUdeviceptr device, unsigned flags, Writer writer, bool keeps,
                   int threads) {
  constexpr std::size_t chunk = 8 * mega;
  constexpr int chunks = 8, turns = 9;
  const CUstream s = stream();
  std::vector<double> took;
  for (int turn = 0; turn < turns; ++turn) {
    char* const at = host + turn % chunks * chunk;
    if (writer == Writer::cpu) memset(at, turn, chunk);
    if (writer == Writer::gpu) {
      CU(cuMemcpyAsync(on_gpu(at), device, chunk, s));
      synchronize(s);
    }
    took.push_back(write_back(at, chunk, keeps, threads));
  }
  CU(cuStreamDestroy(s));
  const double seconds = median(took);
  printf(
      "{\"probe\": \"flush\", \"register\": %u, \"written_by\": \"%s\", \"instruction\": \"%s\", "
      "\"threads\": %d, \"us_a_chunk\": %.1f, \"GBps\": %.2f}\n",
      flags, writer_names[static_cast<int>(writer)], keeps ? "clwb" : "clflushopt", threads,
      seconds * 1e6, static_cast<double>(chunk) / seconds / 1e9);
  fflush(stdout);
}

/// Lines of which a CPU holds a copy when the GPU stores new ones.
void count_stale_lines(char* host, CUdeviceptr device, unsigned flags) {
  constexpr std::size_t bytes = 8 * mega, line = 64;
  constexpr char value = 99;
  const CUstream s = stream();
  int lines = 0, stale = 0;
  for (std::size_t i = 0; i < bytes; i += line) lines += host[i] != value;
  CU(cuMemsetD8(device, value, bytes));
  CU(cuMemcpyAsync(on_gpu(host), device, bytes, s));
  synchronize(s);
  for (std::size_t i = 0; i < bytes; i += line) stale += host[i] != value;
  printf("{\"probe\": \"flush\", \"register\": %u, \"stale_lines\": %d, \"of\": %d}\n", flags,
         stale, lines);
}

void flush() {
  constexpr std::size_t all = 64 * mega;
  const CUdeviceptr device = device_memory(all);
  for (const unsigned flags :
       {plain_registration, plain_registration | CU_MEMHOSTREGISTER_IOMEMORY}) {
    char* const host = shared_memory(all, flags);
    if (host == nullptr) continue;
    for (const Writer writer : {Writer::nobody, Writer::gpu, Writer::cpu})
      for (const bool keeps : {false, true})
        for (const int threads : {1, 2, 4, 8})
          measure_flush(host, device, flags, writer, keeps, threads);
    count_stale_lines(host, device, flags);
  }
}

// ---- read

/// `Loads` 16-byte loads of each operand are under way before the first is used.
template <int Loads>
__global__ void sum(const uint4* a, const uint4* b, uint4* to, std::size_t count) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + (Loads - 1) * stride < count; i += Loads * stride) {
    uint4 x[Loads], y[Loads];
#pragma unroll
    for (int k = 0; k < Loads; ++k) {
      x[k] = __ldcv(a + i + k * stride);
      y[k] = __ldcv(b + i + k * stride);
    }
#pragma unroll
    for (int k = 0; k < Loads; ++k)
      to[i + k * stride] = {x[k].x + y[k].x, x[k].y + y[k].y, x[k].z + y[k].z, x[k].w + y[k].w};
  }
}

struct Reading {
  CUstream stream;
  const uint4 *in_host, *own;
  uint4* to;
  std::size_t bytes;
};

void launch_sum(const Reading& r, const uint4* other, int loads, int blocks, int threads) {
  const std::size_t count = r.bytes / sizeof(uint4);
  if (loads == 1) sum<1><<<blocks, threads, 0, r.stream>>>(other, r.own, r.to, count);
  if (loads == 4) sum<4><<<blocks, threads, 0, r.stream>>>(other, r.own, r.to, count);
  if (loads == 8) sum<8><<<blocks, threads, 0, r.stream>>>(other, r.own, r.to, count);
  CU(cudaGetLastError());
}

/// The best of a few turns, in GB/s.
double rate_of(const Reading& r, const std::function<void()>& enqueue) {
  cudaEvent_t begin, end;
  CU(cudaEventCreate(&begin));
  CU(cudaEventCreate(&end));
  float best = 0;
  for (int turn = 0; turn < 4; ++turn) {
    float took = 0;
    CU(cudaEventRecord(begin, r.stream));
    enqueue();
    CU(cudaEventRecord(end, r.stream));
    CU(cudaEventSynchronize(end));
    CU(cudaEventElapsedTime(&took, begin, end));
    if (turn == 1 || took < best) best = took;  // the first one warms up
  }
  CU(cudaEventDestroy(begin));
  CU(cudaEventDestroy(end));
  return static_cast<double>(r.bytes) / best / 1e6;
}

void read() {
  constexpr std::size_t bytes = 32 * mega;
  char* const host = shared_memory(2 * bytes);
  const CUdeviceptr own = device_memory(bytes), to = device_memory(bytes);
  const CUdeviceptr scratch = device_memory(bytes), written = device_memory(bytes);
  const CUstream beside = stream();
  const Reading r{stream(), pointer_on_gpu<const uint4>(host), reinterpret_cast<const uint4*>(own),
                  reinterpret_cast<uint4*>(to), bytes};
  for (const bool copies : {false, true})
    for (const int loads : {1, 4, 8})
      for (const int blocks : {16, 32, 64, 128})
        for (const int threads : {256, 512}) {
          const double rate = rate_of(r, [&] {
            // As the lane that writes does.
            if (copies) CU(cuMemcpyAsync(on_gpu(host) + bytes, written, bytes, beside));
            launch_sum(r, r.in_host, loads, blocks, threads);
          });
          synchronize(beside);
          printf(
              "{\"probe\": \"read\", \"beside_a_copy\": %s, \"loads\": %d, \"blocks\": %d, "
              "\"threads\": %d, \"GBps\": %.2f}\n",
              copies ? "true" : "false", loads, blocks, threads, rate);
        }
  for (const std::size_t piece : {256 * kilo, mega, 4 * mega, bytes}) {
    const double rate = rate_of(r, [&] {
      for (std::size_t at = 0; at < bytes; at += piece) {
        CU(cuMemcpyAsync(scratch + at, on_gpu(host) + at, piece, r.stream));
        const Reading part{r.stream, nullptr, r.own + at / sizeof(uint4), r.to + at / sizeof(uint4),
                           piece};
        launch_sum(part, reinterpret_cast<const uint4*>(scratch + at), 4, 32, 256);
      }
    });
    printf("{\"probe\": \"read\", \"by_scratch\": %zu, \"GBps\": %.2f}\n", piece, rate);
  }
}

// ---- small, spin

void spin(double seconds) {
  constexpr int blocks = 264, threads = 1024;
  char* const host = shared_memory(4 * kilo);
  spin_until<<<blocks, threads>>>(pointer_on_gpu<const volatile int>(host));
  printf("{\"probe\": \"spin\"}\n");
  fflush(stdout);
  usleep(static_cast<useconds_t>(seconds * 1e6));
  *reinterpret_cast<volatile int*>(host) = 1;
  CU(cudaDeviceSynchronize());
}

void small() {
  char* const host = shared_memory(mega);
  const CUdeviceptr device = device_memory(mega);
  const CUstream s = stream();
  const struct {
    const char* name;
    CUdeviceptr to, from;
  } ways[] = {{"to the host", on_gpu(host), device},
              {"to the GPU", device, on_gpu(host)},
              {"on the GPU", device + 512 * kilo, device}};
  for (const auto& way : ways)
    for (const std::size_t bytes : {16, 256, 1024, 1536, 2048, 4096, 16384, 65536}) {
      std::vector<double> took;
      for (int turn = 0; turn < 15; ++turn) {
        const double begin = now();
        CU(cuMemcpyAsync(way.to, way.from, bytes, s));
        synchronize(s);
        took.push_back(now() - begin);
      }
      printf(
          "{\"probe\": \"small\", \"way\": \"%s\", \"bytes\": %zu, \"us\": %.2f, \"worst_us\": "
          "%.2f}\n",
          way.name, bytes, median(took) * 1e6, *std::max_element(took.begin(), took.end()) * 1e6);
    }
}

// ---- hops

/// Tells the host, waits for its answer, and reads a block, as one launch in software mode would.
__global__ void tell_and_read(volatile std::uint64_t* told, const volatile std::uint64_t* answer,
                              std::uint64_t number, const volatile std::uint64_t* block,
                              std::uint64_t* to) {
  if (threadIdx.x == 0) {
    *told = number;
    __threadfence_system();
    while (*answer < number) continue;
  }
  __syncthreads();
  to[threadIdx.x] = block[threadIdx.x] + number;
}

void time_call(const char* what, const std::function<void()>& call) {
  constexpr int warm = 100, calls = 200;  // both fit a stream's queue
  for (int i = 0; i < warm; ++i) call();
  CU(cudaDeviceSynchronize());
  const double begin = now();
  for (int i = 0; i < calls; ++i) call();
  const double took = (now() - begin) / calls;
  CU(cudaDeviceSynchronize());
  printf("{\"probe\": \"hops\", \"cpu_of\": \"%s\", \"us\": %.3f}\n", what, took * 1e6);
}

void time_calls(char* host, CUdeviceptr device) {
  const CUstream s = stream(), other = stream();
  const CUdeviceptr word = on_gpu(host) + 64, block = on_gpu(host) + 4 * kilo;
  CUevent event = nullptr;
  CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CUstreamBatchMemOpParams pair[2] = {};
  pair[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_64, word, {0}, 0, 0};
  pair[1].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_64, word, {0}, CU_STREAM_WAIT_VALUE_GEQ, 0};
  time_call("event record", [=] { CU(cuEventRecord(event, s)); });
  time_call("wait for an event", [=] { CU(cuStreamWaitEvent(other, event, 0)); });
  time_call("wait value", [=] { CU(cuStreamWaitValue64(s, word, 0, CU_STREAM_WAIT_VALUE_GEQ)); });
  time_call("write value", [=] { CU(cuStreamWriteValue64(s, word, 0, 0)); });
  time_call("write and wait in a batch", [&] { CU(cuStreamBatchMemOp(s, 2, pair, 0)); });
  time_call("copy to the host, 64 B", [=] { CU(cuMemcpyAsync(block, device, 64, s)); });
  time_call("copy to the host, 4 KB", [=] { CU(cuMemcpyAsync(block, device, 4 * kilo, s)); });
  time_call("copy to the GPU, 4 KB", [=] { CU(cuMemcpyAsync(device, block, 4 * kilo, s)); });
  time_call("kernel", [=] { nothing<<<1, 32, 0, s>>>(); });
}

void time_round_trip(char* host, CUdeviceptr device, double answers_after) {
  constexpr std::uint64_t turns = 300;
  const CUstream s = stream();
  auto* const told = reinterpret_cast<std::atomic<std::uint64_t>*>(host + 128);
  auto* const answer = reinterpret_cast<std::atomic<std::uint64_t>*>(host + 192);
  told->store(0);
  answer->store(0);
  std::thread proxy([=] {
    for (std::uint64_t n = 1; n <= turns; ++n) {
      while (told->load() < n) _mm_pause();
      for (const double until = now() + answers_after; now() < until;) continue;
      answer->store(n);
    }
  });
  std::vector<double> took;
  for (std::uint64_t n = 1; n <= turns; ++n) {
    const double begin = now();
    tell_and_read<<<1, 64, 0, s>>>(pointer_on_gpu<volatile std::uint64_t>(told),
                                   pointer_on_gpu<const volatile std::uint64_t>(answer), n,
                                   pointer_on_gpu<const volatile std::uint64_t>(host + 8 * kilo),
                                   reinterpret_cast<std::uint64_t*>(device));
    synchronize(s);
    took.push_back(now() - begin);
  }
  proxy.join();
  printf("{\"probe\": \"hops\", \"one_launch_answered_after_us\": %.1f, \"us\": %.2f}\n",
         answers_after * 1e6, median(took) * 1e6);
}

void hops() {
  char* const host = shared_memory(mega);
  const CUdeviceptr device = device_memory(mega);
  time_calls(host, device);
  for (const double after : {0.0, 1e-6, 2e-6}) time_round_trip(host, device, after);
}

}  // namespace

int run(const std::string& what, double seconds) {
  CU(cuInit(0));
  CU(cudaFree(nullptr));
  CU(cuCtxGetCurrent(&context));
  if (what == "queue") return queue(), 0;
  if (what == "flush") return flush(), 0;
  if (what == "read") return read(), 0;
  if (what == "small") return small(), 0;
  if (what == "hops") return hops(), 0;
  if (what == "spin") return spin(seconds), 0;
  fprintf(stderr, "probe flush|hops|read|queue|small|spin [SECONDS]\n");
  return 2;
}

}  // namespace probe

int main(int argc, char** argv) {
  return probe::run(argc > 1 ? argv[1] : "", argc > 2 ? atof(argv[2]) : 3);
}
