// The calls that start, wait for, test and free requests. If none of the requests is a collective
// in the pool, the MPI does the call. Otherwise we advance the pool's calls, complete those that
// have ended in the MPI, and then the MPI answers for its own requests and ours alike.
#include <algorithm>
#include <span>
#include <vector>

#include "export.hpp"
#include "pool_requests.hpp"
#include "queue_thread.hpp"

namespace {

using namespace penstock::mpi;

/// The requests of one call.
class Requests {
 public:
  Requests(int n, const void* handles) : n_(n > 0 ? static_cast<std::size_t>(n) : 0) {
    found_.reserve(n_);
    find_requests(handles, n_, found_);
    for (std::size_t i = 0; i < n_; ++i) {
      translated_ = translated_ || found_[i].persistent != nullptr;
    }
    if (translated_) translate(handles);
  }

  /// The handles to pass to the MPI.
  void* seen(void* handles) { return translated_ ? copy_.data() : handles; }

  /// Waits until all of our requests have ended.
  void wait_for_all(const char* what) {
    const DrivingHere driving;
    for (const FoundRequest& found : found_) {
      if (found.request == nullptr) continue;
      PoolRequest& request = *found.request;
      request.call->comm->queue->wait(what, [&] { return request.queued.over.load(); });
    }
    advance_requests();
  }
  bool any_is_active() const {
    return std::any_of(found_.begin(), found_.end(),
                       [](const FoundRequest& found) { return found.request != nullptr; });
  }
  /// Waits until `over`, which asks the MPI, returns true. One of our requests must be active.
  template <class Over>
  void wait_until(const char* what, const Over& over) {
    const DrivingHere driving;
    for (const FoundRequest& found : found_) {
      if (found.request == nullptr) continue;
      return found.request->call->comm->queue->wait(what, [&] {
        advance_requests();
        return over();
      });
    }
  }

  /// Finishes after an MPI call with one status.
  int finish_one(int done, void* handles) {
    return finish(done, handles, [](std::size_t, int) {});
  }
  /// Finishes after an MPI call with a status for each request, or for each of `indices`.
  int finish_all(int done, void* handles, void* statuses, std::span<const int> indices = {}) {
    const Constants& mpi = constants();
    const auto place_of = [&](std::size_t i) {
      const auto at = std::find(indices.begin(), indices.end(), static_cast<int>(i));
      return indices.empty() ? i : static_cast<std::size_t>(at - indices.begin());
    };
    const bool wants_statuses = statuses != mpi.statuses_ignore;
    const std::size_t number = indices.empty() ? n_ : indices.size();
    bool first = done == mpi.success;
    const int code = finish(done, handles, [&](std::size_t i, int error) {
      for (std::size_t k = 0; wants_statuses && first && k < number; ++k)
        set_error(statuses, k, mpi.success);
      first = false;
      if (wants_statuses) set_error(statuses, place_of(i), error);
    });
    return code != mpi.success && done == mpi.success ? mpi.err_in_status : code;
  }

 private:
  void translate(const void* handles) {
    copy_.resize(n_ * handle_bytes());
    for (std::size_t i = 0; i < n_; ++i) {
      const FoundRequest& found = found_[i];
      Handle seen = load_at(handles, i);
      if (found.persistent != nullptr)
        seen = found.request != nullptr ? found.request->handle : constants().request_null;
      store_at(copy_.data(), i, seen);
    }
  }
  /// Removes the requests that the MPI has ended from the table, and stores the handles back. Calls
  /// `failed` for each failed call, and raises the first such error on its communicator.
  template <class Failed>
  int finish(int done, void* handles, const Failed& failed) {
    const Constants& mpi = constants();
    void* const after = seen(handles);
    const PoolRequest* first = nullptr;
    for (std::size_t i = 0; i < n_; ++i) {
      const FoundRequest& found = found_[i];
      const bool ended = found.request != nullptr && load_at(after, i) == mpi.request_null;
      if (translated_ && found.persistent == nullptr) store_at(handles, i, load_at(after, i));
      if (!ended) continue;
      forget(found);
      if (!found.request->queued.error) continue;
      if (first == nullptr) first = found.request.get();
      failed(i, code_on_comm(*found.request->queued.error));
    }
    if (first == nullptr) return done;
    return raise_on_comm(first->call->comm->alive, *first->queued.error);
  }

  std::size_t n_;
  std::vector<FoundRequest> found_;
  std::vector<char> copy_;
  bool translated_ = false;
};

/// The indices of completed requests, as MPI_Waitsome and MPI_Testsome returned them.
std::span<const int> ended(const int* number, const int* indices) {
  if (*number == constants().undefined || *number < 0) return {};
  return {indices, static_cast<std::size_t>(*number)};
}

/// Asks the MPI about requests of an array one by one.
class Questions {
 public:
  Questions(int n, const void* handles, void* statuses)
      : handles_(n > 0 ? handles : nullptr), statuses_(statuses) {}
  bool is_null(int i) const { return handle(i) == constants().request_null; }
  /// Asks about request `i`; its status goes to element `k`.
  int ask(int i, int k, int* flag) const { return ask_about(handle(i), k, flag); }
  /// Asks about MPI_REQUEST_NULL, which yields the empty status.
  int ask_about_none(int* flag) const { return ask_about(constants().request_null, 0, flag); }

 private:
  int ask_about(Handle request, int k, int* flag) const {
    const Constants& mpi = constants();
    void* status = mpi.status_ignore;
    if (statuses_ != mpi.statuses_ignore && statuses_ != mpi.status_ignore)
      status = static_cast<char*>(statuses_) + static_cast<std::size_t>(k) * status_shape().bytes;
    const int asked = pmpi().Request_get_status(request, flag, status);
    if (status != mpi.status_ignore && asked == mpi.success) set_error(status, 0, asked);
    return asked;
  }
  Handle handle(int i) const { return load_at(handles_, static_cast<std::size_t>(i)); }
  const void* handles_;
  void* statuses_;
};

/// Advances outstanding calls, before a call that does not wait.
void look() {
  if (have_pool_requests()) advance_requests();
}

}  // namespace

PENSTOCK_MPI(Wait, (void* request, void* status), (request, status)) {
  if (!have_pool_requests()) return PENSTOCK_PASS(Wait, (request, status));
  Requests all(1, request);
  all.wait_for_all("MPI_Wait");
  return all.finish_one(pmpi().Wait(all.seen(request), status), request);
}

PENSTOCK_MPI(Waitall, (int n, void* requests, void* statuses), (n, requests, statuses)) {
  if (!have_pool_requests()) return PENSTOCK_PASS(Waitall, (n, requests, statuses));
  Requests all(n, requests);
  all.wait_for_all("MPI_Waitall");
  return all.finish_all(pmpi().Waitall(n, all.seen(requests), statuses), requests, statuses);
}

PENSTOCK_MPI(Waitany, (int n, void* requests, int* index, void* status),
             (n, requests, index, status)) {
  if (!have_pool_requests()) return PENSTOCK_PASS(Waitany, (n, requests, index, status));
  Requests all(n, requests);
  if (!all.any_is_active())
    return all.finish_one(pmpi().Waitany(n, all.seen(requests), index, status), requests);
  int done = 0, flag = 0;
  all.wait_until("MPI_Waitany", [&] {
    done = pmpi().Testany(n, all.seen(requests), index, &flag, status);
    return done != constants().success || flag != 0;
  });
  return all.finish_one(done, requests);
}

PENSTOCK_MPI(Waitsome, (int n, void* requests, int* number, int* indices, void* statuses),
             (n, requests, number, indices, statuses)) {
  if (!have_pool_requests())
    return PENSTOCK_PASS(Waitsome, (n, requests, number, indices, statuses));
  Requests all(n, requests);
  if (!all.any_is_active())
    return all.finish_one(pmpi().Waitsome(n, all.seen(requests), number, indices, statuses),
                          requests);
  int done = 0;
  all.wait_until("MPI_Waitsome", [&] {
    done = pmpi().Testsome(n, all.seen(requests), number, indices, statuses);
    return done != constants().success || *number != 0;
  });
  return all.finish_all(done, requests, statuses, ended(number, indices));
}

PENSTOCK_MPI(Test, (void* request, int* flag, void* status), (request, flag, status)) {
  if (!have_pool_requests()) return PENSTOCK_PASS(Test, (request, flag, status));
  look();
  Requests all(1, request);
  return all.finish_one(pmpi().Test(all.seen(request), flag, status), request);
}

PENSTOCK_MPI(Testall, (int n, void* requests, int* flag, void* statuses),
             (n, requests, flag, statuses)) {
  if (!have_pool_requests()) return PENSTOCK_PASS(Testall, (n, requests, flag, statuses));
  look();
  Requests all(n, requests);
  return all.finish_all(pmpi().Testall(n, all.seen(requests), flag, statuses), requests, statuses);
}

PENSTOCK_MPI(Testany, (int n, void* requests, int* index, int* flag, void* status),
             (n, requests, index, flag, status)) {
  if (!have_pool_requests()) return PENSTOCK_PASS(Testany, (n, requests, index, flag, status));
  look();
  Requests all(n, requests);
  return all.finish_one(pmpi().Testany(n, all.seen(requests), index, flag, status), requests);
}

PENSTOCK_MPI(Testsome, (int n, void* requests, int* number, int* indices, void* statuses),
             (n, requests, number, indices, statuses)) {
  if (!have_pool_requests())
    return PENSTOCK_PASS(Testsome, (n, requests, number, indices, statuses));
  look();
  Requests all(n, requests);
  const int done = pmpi().Testsome(n, all.seen(requests), number, indices, statuses);
  return all.finish_all(done, requests, statuses, ended(number, indices));
}

PENSTOCK_MPI(Request_get_status, (Handle request, int* flag, void* status),
             (request, flag, status)) {
  if (!have_pool_requests()) return PENSTOCK_PASS(Request_get_status, (request, flag, status));
  look();
  Slot handle(incoming(request));
  Requests one(1, handle);
  return pmpi().Request_get_status(load(one.seen(handle)), flag, status);
}

// MPI 4.1's forms for arrays. Programs find them in this library even if the MPI lacks them; so we
// ask the MPI about one request at a time.
PENSTOCK_MPI(Request_get_status_all, (int n, void* requests, int* flag, void* statuses),
             (n, requests, flag, statuses)) {
  usable(caller);
  look();
  Requests all(have_pool_requests() ? n : 0, requests);
  const auto own = pmpi().Request_get_status_all;
  if (own != nullptr) return own(n, all.seen(requests), flag, statuses);
  const Questions questions(n, all.seen(requests), statuses);
  *flag = 1;
  for (int i = 0; i < n && *flag != 0; ++i) {
    const int asked = questions.ask(i, i, flag);
    if (asked != constants().success) return asked;
  }
  return constants().success;
}

PENSTOCK_MPI(Request_get_status_any, (int n, void* requests, int* index, int* flag, void* status),
             (n, requests, index, flag, status)) {
  usable(caller);
  look();
  Requests all(have_pool_requests() ? n : 0, requests);
  const auto own = pmpi().Request_get_status_any;
  if (own != nullptr) return own(n, all.seen(requests), index, flag, status);
  const Questions questions(n, all.seen(requests), status);
  bool some = false;
  for (int i = 0; i < n; ++i) {
    if (questions.is_null(i)) continue;
    some = true;
    *index = i;
    const int asked = questions.ask(i, 0, flag);
    if (asked != constants().success || *flag != 0) return asked;
  }
  *index = constants().undefined;
  *flag = 0;
  return some ? constants().success : questions.ask_about_none(flag);
}

PENSTOCK_MPI(Request_get_status_some,
             (int n, void* requests, int* number, int* indices, void* statuses),
             (n, requests, number, indices, statuses)) {
  usable(caller);
  look();
  Requests all(have_pool_requests() ? n : 0, requests);
  const auto own = pmpi().Request_get_status_some;
  if (own != nullptr) return own(n, all.seen(requests), number, indices, statuses);
  const Questions questions(n, all.seen(requests), statuses);
  *number = constants().undefined;
  for (int i = 0; i < n; ++i) {
    if (questions.is_null(i)) continue;
    if (*number == constants().undefined) *number = 0;
    int flag = 0;
    const int asked = questions.ask(i, *number, &flag);
    if (asked != constants().success) return asked;
    if (flag != 0) indices[(*number)++] = i;
  }
  return constants().success;
}

PENSTOCK_MPI(Start, (void* request), (request)) {
  if (!have_pool_requests()) return PENSTOCK_PASS(Start, (request));
  const FoundRequest found = find_request(load(request));
  if (found.persistent == nullptr || found.request != nullptr) return pmpi().Start(request);
  return start(*found.persistent);
}

PENSTOCK_MPI(Startall, (int n, void* requests), (n, requests)) {
  if (!have_pool_requests()) return PENSTOCK_PASS(Startall, (n, requests));
  for (int i = 0; i < n; ++i) {
    char* const request =
        static_cast<char*>(requests) + static_cast<std::size_t>(i) * handle_bytes();
    if (const int started = serve_Start(request, caller); started != constants().success)
      return started;
  }
  return constants().success;
}

PENSTOCK_MPI(Request_free, (void* request), (request)) {
  if (!have_pool_requests()) return PENSTOCK_PASS(Request_free, (request));
  const Handle handle = load(request);
  const FoundRequest found = find_request(handle);
  if (found.request == nullptr && found.persistent == nullptr) return pmpi().Request_free(request);
  free_request(found, handle);
  if (found.persistent != nullptr) return pmpi().Request_free(request);
  store(request, constants().request_null);
  return constants().success;
}
