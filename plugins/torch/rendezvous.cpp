#include "rendezvous.hpp"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

namespace penstock::torch {

namespace {

std::string first_line_of(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

/// The same for all processes of this host since it was started.
std::string host_identity() {
  return first_line_of("/proc/sys/kernel/random/boot_id") + " " + host_name();
}

std::string random_name() {
  std::random_device random;
  std::ostringstream name;
  name << std::hex << random() << random();
  return name.str();
}

std::string make_temporary_pool(int ranks) {
  char spec[64] = "";
  const auto status =
      penstock_pool_create_temporary(static_cast<std::uint32_t>(ranks), spec, sizeof spec);
  if (status != PENSTOCK_OK) throw_last_error(status);
  return spec;
}

/// What rank 0 tells the others of the pool.
struct Invitation {
  std::string spec, job, host;
  std::string text() const { return spec + "\n" + job + "\n" + host; }
  static Invitation parse(const std::string& text) {
    std::istringstream lines(text);
    Invitation parsed;
    std::getline(lines, parsed.spec);
    std::getline(lines, parsed.job);
    std::getline(lines, parsed.host);
    return parsed;
  }
};

std::mutex mutex;
std::weak_ptr<Attached> current;  // of the first group: tensors lie there
std::string current_job;
std::map<std::string, std::weak_ptr<Attached>> by_spec;

}  // namespace

void throw_last_error(penstock_status_t status) {
  const std::string words = std::string("penstock: ") + penstock_last_error();
  if (status == PENSTOCK_INVALID_ARGUMENT) C10_THROW_ERROR(ValueError, words);
  C10_THROW_ERROR(DistBackendError, words);
}

std::string Meeting::key(const std::string& topic, int rank) const {
  return "penstock/" + topic + "/" + std::to_string(rank);
}

std::string Meeting::await(const std::string& topic, int rank) {
  const auto until = std::chrono::steady_clock::now() + timeout_;
  auto pause = std::chrono::microseconds(200);
  const std::string wanted = key(topic, rank);
  const std::string trouble = key("trouble", 0);
  while (!store_->check({wanted})) {
    if (store_->check({trouble}))
      C10_THROW_ERROR(DistBackendError, "penstock: process group " + group_ +
                                            " has not met: " + store_->get_to_str(trouble));
    if (cancelled_ != 0)
      C10_THROW_ERROR(DistBackendError,
                      "penstock: process group " + group_ + " was aborted while its ranks met");
    if (std::chrono::steady_clock::now() > until)
      C10_THROW_ERROR(DistBackendError, "penstock: rank " + std::to_string(rank) +
                                            " of process group " + group_ +
                                            " has not come to its first collective within " +
                                            std::to_string(timeout_.count()) +
                                            " ms: see what it does instead, or give "
                                            "init_process_group a longer timeout");
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(20'000));
  }
  return store_->get_to_str(wanted);
}

std::string Meeting::from_first(const std::string& topic, const std::string& mine) {
  if (rank_ != 0) return await(topic, 0);
  store_->set(key(topic, 0), mine);
  return mine;
}

std::string Meeting::from_all(const std::string& topic, const std::string& mine) {
  store_->set(key(topic, rank_), mine);
  std::string all;
  if (rank_ != 0) return await(topic + "/all", 0);
  for (int rank = 0; rank < size_; ++rank) all += rank == rank_ ? mine : await(topic, rank);
  return from_first(topic + "/all", all);
}

void Meeting::done() {
  const std::string pool = key("pool", 0);
  if (store_->add(key("met", 0), 1) != size_) {
    // Not later than this group may end.
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (store_->check({pool}) && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    return;
  }
  for (int rank = 0; rank < size_; ++rank) store_->deleteKey(key("comm", rank));
  store_->deleteKey(key("comm/all", 0));
  store_->deleteKey(key("met", 0));
  store_->deleteKey(pool);
}

void Meeting::give_up(const std::string& why) {
  if (store_->check({key("trouble", 0)})) return;
  store_->set(key("trouble", 0), "rank " + std::to_string(rank_) + " on " + host_name() +
                                     " could not join: " + why.substr(0, why.find('\n')));
}

std::shared_ptr<Attached> Attached::meet(Meeting& meeting) {
  const std::string named = penstock_default_spec();
  Invitation own;
  std::shared_ptr<Attached> there;
  std::string there_job;
  {
    const std::lock_guard<std::mutex> guard(mutex);
    there = current.lock();
    there_job = current_job;
  }
  bool made = false;
  if (meeting.rank() == 0) {
    own.spec = there != nullptr ? there->spec() : named;
    own.job = there != nullptr ? there_job : "torch-" + random_name();
    own.host = host_identity();
    if (own.spec.empty()) {
      own.spec = make_temporary_pool(meeting.size());
      made = true;
    }
  }
  const auto first = Invitation::parse(meeting.from_first("pool", own.text()));
  TORCH_CHECK(!named.empty() || first.host == host_identity(), "penstock: rank ", meeting.rank(),
              " of process group ", meeting.group(), " runs on ", host_name(),
              " and rank 0 on another host (", first.host.substr(first.host.find(' ') + 1),
              "): set PENSTOCK_POOL on all hosts to a pool that all of them share");
  const std::string spec = named.empty() ? first.spec : named;
  const std::lock_guard<std::mutex> guard(mutex);
  there = by_spec[spec].lock();
  if (there != nullptr) {  // of another group, or of another rank in this process
    if (made) there->remove_by_ = ::getpid();
    return there;
  }
  penstock_attach_options_t options{};
  options.struct_bytes = sizeof options;
  options.rank = meeting.rank();
  options.job = first.job.c_str();
  penstock_pool_t* pool = nullptr;
  const auto status = penstock_pool_attach(spec.c_str(), &options, &pool);
  if (status != PENSTOCK_OK) {
    if (made) penstock_pool_remove(spec.c_str(), 1);
    throw_last_error(status);
  }
  there.reset(new Attached(pool, spec));
  if (made) there->remove_by_ = ::getpid();
  by_spec[spec] = there;
  if (current.expired()) {
    current = there;
    current_job = first.job;
  }
  return there;
}

std::shared_ptr<Attached> Attached::there() {
  const std::lock_guard<std::mutex> guard(mutex);
  return current.lock();
}

void Attached::leave() {
  const std::lock_guard<std::mutex> guard(mutex);
  for (const auto& [spec, attached] : by_spec)
    if (const auto there = attached.lock()) there->remove();
}

void Attached::remove() {
  if (remove_by_ == ::getpid()) penstock_pool_remove(spec_.c_str(), 1);
  remove_by_ = 0;
}

Attached::~Attached() {
  tensors_.reset();
  penstock_pool_detach(pool_);
  remove();
}

}  // namespace penstock::torch
