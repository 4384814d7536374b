#include "errors.hpp"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "pmpi.hpp"

namespace penstock::mpi {

namespace {

int class_of(ErrorCode code) {
  const Constants& mpi = constants();
  switch (code) {
    case ErrorCode::invalid_argument:
      return mpi.err_rma_range;
    case ErrorCode::mismatch:
      return mpi.err_rma_sync;
    case ErrorCode::no_space:
    case ErrorCode::no_slots:
      return mpi.err_no_mem;
    case ErrorCode::peer_dead:
      return mpi.err_proc_aborted != absent ? mpi.err_proc_aborted : mpi.err_other;
    default:
      return mpi.err_other;
  }
}

/// Limit of error codes, because an MPI cannot free them; later errors of a class share one code.
constexpr std::size_t max_codes = 512;

/// Maps messages to error codes. The message "" has the code that all errors of a class share
/// beyond the limit; the MPI's text of that code changes with each error.
class Codes {
 public:
  int code_of(const MpiError& error) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (const auto known = codes_.find({error.mpi_class, error.message}); known != codes_.end())
      return known->second;
    const bool shared = codes_.size() >= max_codes;
    auto [place, is_new] = codes_.try_emplace({error.mpi_class, shared ? "" : error.message}, 0);
    if (is_new && pmpi().Add_error_code(error.mpi_class, &place->second) != constants().success) {
      codes_.erase(place);
      return error.mpi_class;
    }
    const auto most = static_cast<std::size_t>(constants().max_error_string) - 1;
    pmpi().Add_error_string(place->second, error.message.substr(0, most).c_str());
    return place->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, std::string>, int> codes_;  ///< keyed by class and message
};

int mpi_code(const MpiError& error) {
  static auto* codes = new Codes;  // never destroyed: calls may come from exit handlers
  return codes->code_of(error);
}

/// Logs the error, since not every MPI prints the text of an added code.
void say(const Error& error) {
  const auto level = error.code == ErrorCode::peer_dead ? base::Level::error : base::Level::info;
  base::log(level, "{}", error.message);
}

}  // namespace

MpiError::MpiError(Error error) : Error(std::move(error)), mpi_class(class_of(code)) {}

int raise(Handle win, const MpiError& error) {
  say(error);
  const int code = mpi_code(error);
  pmpi().Win_call_errhandler(win, code);
  return code;
}

int code_on_comm(const Error& error) {
  if (error.code != ErrorCode::mismatch) return mpi_code(error);
  return mpi_code({constants().err_truncate, error.message});
}

int raise_on_comm(Handle comm, const Error& error) {
  if (error.code == ErrorCode::mismatch)  // the program may never ask for the text
    base::log(base::Level::error, "{}", error.message);
  else
    say(error);
  const int code = code_on_comm(error);
  pmpi().Comm_call_errhandler(comm, code);
  return code;
}

}  // namespace penstock::mpi
