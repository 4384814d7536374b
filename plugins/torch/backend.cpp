#include "backend.hpp"

#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>
#include <penstock/gpu.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <optional>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace penstock::torch {

namespace {

/// The worker may need Python's lock to end, where we hold it.
class WithoutPython {
 public:
  WithoutPython() {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) released_.emplace();
  }

 private:
  std::optional<pybind11::gil_scoped_release> released_;
};

std::string name_of(c10d::Backend& backend) {
  const std::string& described = backend.getGroupDesc();
  if (!described.empty() && described != "undefined") return described;
  const std::string& uid = backend.getGroupUid();
  if (!uid.empty()) return uid;
  const std::string& given = backend.getBackendOptions()->group_name;
  return given.empty() ? "0" : given;
}

/// penstock_comm_open() calls it; no exception may leave.
struct Exchange {
  Meeting& meeting;
  std::exception_ptr error;

  static int run(void* user, const void* mine, void* all, std::uint64_t bytes) {
    auto& self = *static_cast<Exchange*>(user);
    try {
      const std::string everyone =
          self.meeting.from_all("comm", std::string(static_cast<const char*>(mine), bytes));
      TORCH_CHECK(everyone.size() == bytes * static_cast<std::uint64_t>(self.meeting.size()),
                  "penstock: the ranks of process group ", self.meeting.group(),
                  " have different versions of Penstock");
      std::copy(everyone.begin(), everyone.end(), static_cast<char*>(all));
      return 0;
    } catch (...) {
      self.error = std::current_exception();
      return 1;
    }
  }
};

}  // namespace

Backend::Backend(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                 c10::intrusive_ptr<Options> options, bool eager)
    : c10d::Backend(rank, size), store_(std::move(store)), options_(std::move(options)) {
  init();
  // TORCH_DISTRIBUTED_DEBUG asks for the like.
  if (c10d::debug_level() == c10d::DebugLevel::Detail) options_->check = true;
  // Ranks agree on the form of their GPUs' calls when they meet: not before one is chosen.
  if (eager && (gpu_in_use() || !may_use_gpu())) connect();
}

Backend::~Backend() {
  const WithoutPython released;
  __atomic_store_n(&cancelled_, 1, __ATOMIC_RELEASE);
  worker_.stop();
  mail_.reset();
  penstock_comm_close(comm_);
}

void Backend::connect() {
  if (comm_ != nullptr) return;
  Meeting meeting(store_, rank_, size_, name_of(*this), limit(), cancelled_);
  try {
    open(meeting);
  } catch (const c10::Error& error) {
    meeting.give_up(error.what_without_backtrace());
    throw;
  }
}

void Backend::open(Meeting& meeting) {
  {
    auto met = Attached::meet(meeting);
    const std::lock_guard<std::mutex> guard(mutex_);
    attached_ = std::move(met);
  }
  const std::string name = "process group " + name_of(*this);
  Exchange exchange{meeting, nullptr};
  penstock_comm_options_t options{};
  options.struct_bytes = sizeof options;
  options.rank = static_cast<std::uint32_t>(rank_);
  options.ranks = static_cast<std::uint32_t>(size_);
  options.name = name.c_str();
  options.exchange = Exchange::run;
  options.user = &exchange;
  options.check = options_->check ? 1 : 0;
  const std::optional<c10::Device> gpu = gpu_in_use();
  const c10::OptionalDeviceGuard on(gpu);  // a worker's thread has chosen none
  options.gpu = gpu ? 1 : 0;
  penstock_comm_t* opened = nullptr;
  attached_->tensors().give_up_unused();
  const auto status = penstock_comm_open(attached_->pool(), &options, &opened);
  comm_ = opened;
  if (exchange.error != nullptr) std::rethrow_exception(exchange.error);
  if (status != PENSTOCK_OK) throw_last_error(status);
  meeting.done();
}

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {  // NOLINT: PyTorch's
  const auto attached = options.device().is_cpu() ? Attached::there() : nullptr;
  at::Tensor tensor;
  if (attached != nullptr) tensor = TensorMemory::allocate(attached, size, options);
  return tensor.defined() ? tensor : at::empty({size}, options);
}

Mail& Backend::mail() {
  const std::lock_guard<std::mutex> guard(mail_mutex_);
  if (mail_ != nullptr) return *mail_;
  std::shared_ptr<Attached> attached;
  {
    const std::lock_guard<std::mutex> of_error(mutex_);
    if (error_ != nullptr) std::rethrow_exception(error_);
    attached = attached_;
  }
  if (attached == nullptr) {
    Meeting meeting(store_, rank_, size_, name_of(*this), limit(), cancelled_);
    attached = Attached::meet(meeting);
  }
  std::vector<std::uint64_t> tokens;  // of those that have met in a collective
  for (int rank = 0; rank < size_; ++rank)
    tokens.push_back(penstock_comm_token(comm_, static_cast<std::uint32_t>(rank)));
  mail_ =
      std::make_unique<Mail>(store_, std::move(attached), rank_, name_of(*this), std::move(tokens));
  return *mail_;
}

penstock_call_t Backend::call_of(const std::string& name, const Part& part,
                                 std::chrono::milliseconds timeout) {
  penstock_call_t call{};
  call.struct_bytes = sizeof call;
  call.name = name.c_str();
  call.collective = part.collective;
  call.root = static_cast<std::uint32_t>(part.root);
  call.datatype = part.reduction.datatype;
  call.operation = part.reduction.operation;
  call.factor = part.reduction.factor;
  call.output = part.output.base();
  call.input = part.in_place ? call.output : part.input.base();
  call.input_blocks = part.input.list().data();
  call.input_count = static_cast<std::uint32_t>(part.input.list().size());
  call.output_blocks = part.output.list().data();
  call.output_count = static_cast<std::uint32_t>(part.output.list().size());
  call.max_is_known = part.max_is_known ? 1 : 0;
  call.max_block_bytes = part.max_bytes;
  call.timeout_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(timeout).count());
  return call;
}

void Backend::run_part(const std::string& name, const Part& part,
                       std::chrono::milliseconds timeout) {
  penstock_call_t call = call_of(name, part, timeout);
  call.cancelled = &cancelled_;
  const auto status = penstock_comm_run(comm_, &call);
  if (status != PENSTOCK_OK) throw_last_error(status);
  part.output.store();
}

void Backend::run(const How& how, std::uint64_t sequence, const std::vector<Part>& parts,
                  Work& work) {
  std::exception_ptr error;
  const auto begin = std::chrono::steady_clock::now();
  try {
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      if (error_ != nullptr) std::rethrow_exception(error_);
    }
    connect();
    const std::string name = how.name + (" #" + std::to_string(sequence));
    for (const Part& part : parts) run_part(name, part, how.timeout);
  } catch (const c10::ValueError&) {
    error = std::current_exception();  // on all ranks alike: nothing was done
  } catch (...) {
    error = std::current_exception();
    fail(error);
  }
  spent_ns_ += std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
  work.end(error);
}

c10::intrusive_ptr<Work> Backend::make_work(const How& how, const std::vector<Part>& parts,
                                            std::uint64_t sequence, Tensors results) const {
  if (!at::hasCallbacks())
    return c10::make_intrusive<Work>(rank_, how.type, sequence, std::move(results));
  const Tensors shown = shown_of(parts, results);
  const std::string title = std::string("penstock:") + how.name;
  return c10::make_intrusive<Work>(rank_, how.type, title.c_str(), shown, sequence,
                                   std::move(results));
}

/// What a profiler shows of a call.
Tensors Backend::shown_of(const std::vector<Part>& parts, const Tensors& results) {
  if (parts.empty()) return results;
  Tensors shown;
  for (const Part& part : parts) {
    const Tensors& taken =
        part.input.tensors().empty() ? part.output.tensors() : part.input.tensors();
    shown.insert(shown.end(), taken.begin(), taken.end());
  }
  return shown;
}

Pending Backend::start(const How& how, std::vector<Part> parts, Tensors results) {
  for (const Part& part : parts) part.output.check_writable(how.name);
  Tensors all;
  for (const Part& part : parts) {
    all.insert(all.end(), part.input.tensors().begin(), part.input.tensors().end());
    all.insert(all.end(), part.output.tensors().begin(), part.output.tensors().end());
  }
  if (const auto device = gpu_of(all)) return start_on_gpu(how, parts, std::move(results), *device);
  const std::uint64_t sequence = ++sequence_;
  auto work = make_work(how, parts, sequence, std::move(results));
  How used = how;
  used.timeout = limit_of_call(how);
  const bool ran = !how.async && worker_.now([&] { run(used, sequence, parts, *work); });
  if (!ran)
    worker_.later([this, used, sequence, work, held = std::move(parts)] {
      run(used, sequence, held, *work);
    });
  return work;
}

void Backend::fail(const std::exception_ptr& error) {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (error_ == nullptr) error_ = error;
}

c10d::ErrorType Backend::getError() {
  const std::lock_guard<std::mutex> guard(mutex_);
  return error_ == nullptr ? c10d::ErrorType::SUCCESS : c10d::ErrorType::COMM_ERROR;
}

void Backend::abort() {
  const WithoutPython released;
  try {
    C10_THROW_ERROR(DistBackendError, "penstock: process group " + name_of(*this) + " was aborted");
  } catch (...) {
    fail(std::current_exception());
  }
  __atomic_store_n(&cancelled_, 1, __ATOMIC_RELEASE);
  worker_.stop();
  if (comm_ != nullptr) penstock_comm_abort(comm_);
  const std::lock_guard<std::mutex> guard(mail_mutex_);
  if (mail_ != nullptr) mail_->stop(error_);
}

void Backend::shutdown() {
  // What is under way may end by itself where all ranks shut down together.
  constexpr int grace_ms = 2000;
  const WithoutPython released;
  worker_.drain(grace_ms);
  try {
    C10_THROW_ERROR(DistBackendError,
                    "penstock: process group " + name_of(*this) + " was destroyed");
  } catch (...) {
    fail(std::current_exception());
  }
  __atomic_store_n(&cancelled_, 1, __ATOMIC_RELEASE);
  worker_.stop();
  penstock_comm_close(comm_.exchange(nullptr));
  std::unique_ptr<Mail> ended;
  {
    const std::lock_guard<std::mutex> guard(mail_mutex_);
    ended = std::move(mail_);
  }
  ended.reset();  // what waits for its messages may come back to us
  const std::lock_guard<std::mutex> guard(mutex_);
  attached_.reset();
}

c10::intrusive_ptr<c10d::Backend> Backend::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank_);
  if (found == ranks.end()) return nullptr;
  auto own =
      c10::make_intrusive<Options>(options != nullptr ? options->timeout : options_->timeout);
  own->check = options_->check;
  if (options != nullptr) own->group_name = options->group_name;
  return c10::make_intrusive<Backend>(store, static_cast<int>(found - ranks.begin()),
                                      static_cast<int>(ranks.size()), own, false);
}

}  // namespace penstock::torch
