#include "nccl/root.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/format.hpp"
#include "base/log.hpp"
#include "base/service_thread.hpp"
#include "nccl/meeting.hpp"
#include "nccl/outcome.hpp"

namespace penstock::nccl {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds patience{5};  // a connection is closed after this time
constexpr std::size_t max_clients = 256;     // at once; beyond that the oldest is closed
constexpr int max_new = 64;                  // accepted per poll, so that no client is starved

std::string name_of_host() {
  char name[64] = "?";
  (void)gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

struct Root::Client {
  base::UniqueFd socket;
  Clock::time_point until;
  std::array<char, sizeof(Question)> asked{};
  Question question;
  std::size_t got = 0, sent = 0;
  std::optional<Answer> answer;
};

Result Root::start(Address& address, std::unique_ptr<Root>& root) {
  base::UniqueFd listening;
  if (const Result listens = listen_at(address, listening); listens != success) return listens;
  base::UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.get() < 0) return failed(system_error, "an eventfd: " + std::string(strerror(errno)));
  root.reset(new Root);
  root->listening_ = base::ProcessFd(listening.release());
  root->wake_ = base::ProcessFd(wake.release());
  root->thread_ = base::start_service_thread("penstock-root", [raw = root.get()] { raw->run(); });
  return success;
}

Root::~Root() {
  constexpr std::uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
  thread_.join();
}

void Root::add(std::uint64_t key, const Place& place) {
  const std::lock_guard<std::mutex> guard(mutex_);
  known_[key] = {place, {}, {}};
}

std::optional<std::string> Root::refusal(std::uint64_t key) const {
  const std::lock_guard<std::mutex> guard(mutex_);
  const auto there = known_.find(key);
  if (there == known_.end() || there->second.refusal.empty()) return std::nullopt;
  return there->second.refusal;
}

void Root::run() {
  std::map<int, Client> clients;  // keyed by socket
  for (;;) {
    std::vector<pollfd> polled{{wake_.get(), POLLIN, 0}, {listening_.get(), POLLIN, 0}};
    for (const auto& [socket, client] : clients)
      polled.push_back({socket, static_cast<short>(client.answer ? POLLOUT : POLLIN), 0});
    (void)poll(polled.data(), polled.size(), clients.empty() ? -1 : 1000);
    if (polled[0].revents != 0) return;
    const auto now = Clock::now();
    for (std::size_t i = 2; i < polled.size(); ++i) {
      Client& client = clients.at(polled[i].fd);
      if ((polled[i].revents != 0 && !serve(client)) || now > client.until)
        clients.erase(polled[i].fd);
    }
    if (polled[1].revents != 0) accept_all(clients);
  }
}

void Root::accept_all(std::map<int, Client>& clients) const {
  for (int i = 0; i < max_new; ++i) {
    const int socket = accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
      // Out of descriptors: poll() would return at once, so pause.
      if (errno == EMFILE || errno == ENFILE)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return;
    }
    if (clients.size() >= max_clients)
      clients.erase(std::min_element(
          clients.begin(), clients.end(),
          [](const auto& a, const auto& b) { return a.second.until < b.second.until; }));
    Client& client = clients[socket];
    client.socket = base::UniqueFd(socket);
    client.until = Clock::now() + patience;
  }
}

/// Advances a client's exchange. False: close it, because it is done or is no rank of ours.
bool Root::serve(Client& client) {
  if (!client.answer) {
    const ssize_t got = recv(client.socket.get(), client.asked.data() + client.got,
                             client.asked.size() - client.got, 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    client.got += static_cast<std::size_t>(got);
    if (client.got < client.asked.size()) return true;
    Question& question = client.question;
    std::memcpy(static_cast<void*>(&question), client.asked.data(), sizeof question);
    question.host_name[sizeof question.host_name - 1] = 0;
    client.answer = answer(question);
    if (client.answer->verdict == 0) return false;
  }
  const ssize_t sent =
      send(client.socket.get(), reinterpret_cast<const char*>(&*client.answer) + client.sent,
           sizeof(Answer) - client.sent, MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  client.sent += static_cast<std::size_t>(sent);
  if (client.sent < sizeof(Answer)) return true;
  const std::lock_guard<std::mutex> guard(mutex_);
  known_.at(client.question.key).answered.insert(client.question.rank);
  return false;
}

/// Answers a question. Verdict 0: the key is unknown, or the rank was answered before.
Answer Root::answer(const Question& question) {
  Answer made;
  const std::lock_guard<std::mutex> guard(mutex_);
  const auto there = known_.find(question.key);
  if (question.magic != Question::our_magic || there == known_.end()) return made;
  Known& known = there->second;
  const Place& place = known.place;
  if (place.ranks != 0) {
    if (question.ranks != place.ranks || question.rank <= 0 || question.rank >= place.ranks ||
        known.answered.contains(question.rank))
      return made;
  }
  made.key = place.key;
  made.verdict = Answer::accepted;
  std::string words;
  if (!place.is_named && question.names_pool != 0)
    words = fmt::format(
        "rank {} on host {} names a pool by PENSTOCK_POOL, and the process on host "
        "{} that called ncclGetUniqueId names none: set PENSTOCK_POOL everywhere, "
        "or nowhere",
        question.rank, question.host_name, name_of_host());
  else if (question.host != this_host() && question.names_pool == 0)
    words = fmt::format(
        "rank {} runs on host {}, and the process on host {} that called "
        "ncclGetUniqueId names no pool: make one that all hosts share (penstock "
        "pool create SPEC), and name it everywhere: eval \"$(penstock env --nccl "
        "--pool SPEC)\"",
        question.rank, question.host_name, name_of_host());
  if (!words.empty()) {
    made.verdict = Answer::refused;
    words.copy(made.words, sizeof made.words - 1);
    known.refusal = words;
  } else {
    place.spec.copy(made.spec, sizeof made.spec - 1);
  }
  return made;
}

}  // namespace penstock::nccl
