// TCP without MPI: ping-pong and a stream through a socket of this host, as in Table 1 of cMPI
// (iPerf). A receiver sleeps until the kernel wakes it, which takes longer than all the rest;
// ping-pong is also measured with a polling receiver, as MPI over TCP polls, with which this is
// compared.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/unique_fd.hpp"
#include "bench/buffer.hpp"
#include "bench/pair_runner.hpp"
#include "bench/program.hpp"
#include "bench/samples.hpp"
#include "bench/socket_io.hpp"
#include "bench/socket_peer.hpp"

namespace penstock::bench {
namespace {

/// Two ends of one TCP connection, without Nagle's delay.
Result<std::pair<base::UniqueFd, base::UniqueFd>> connection() {
  base::UniqueFd listening(socket(AF_INET, SOCK_STREAM, 0)),
      client(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listening.get(), generic, bytes) != 0 || listen(listening.get(), 1) != 0 ||
      getsockname(listening.get(), generic, &bytes) != 0)
    return unexpected(socket_error("cannot listen").error());
  if (connect(client.get(), generic, bytes) != 0)
    return unexpected(socket_error("cannot connect").error());
  base::UniqueFd server(accept(listening.get(), nullptr, nullptr));
  if (server.get() < 0) return unexpected(socket_error("cannot accept").error());
  for (const int each : {client.get(), server.get()}) set_no_delay(each);
  return std::pair(std::move(client), std::move(server));
}

class Bench {
 public:
  Bench(Side& side, int socket, const std::vector<std::size_t>& sizes, Samples& samples)
      : side_(side),
        socket_(socket),
        sizes_(sizes),
        samples_(samples),
        out_(*std::max_element(sizes.begin(), sizes.end()), side.index()),
        in_(*std::max_element(sizes.begin(), sizes.end()), 7) {}

  Result<void> round(std::size_t number) {
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      PENSTOCK_TRY(ping_pong(i, number, Waits::sleeping));
      PENSTOCK_TRY(ping_pong(i, number, Waits::polling));
      PENSTOCK_TRY(stream(i, number));
    }
    return {};
  }

 private:
  Result<void> play(std::size_t bytes, std::size_t count, Waits how) {
    for (std::size_t i = 0; i < count; ++i) {
      if (side_.index() == 0) PENSTOCK_TRY(send_all(socket_, out_.data(), bytes));
      PENSTOCK_TRY(receive_all(socket_, in_.data(), bytes, how));
      if (side_.index() == 1) PENSTOCK_TRY(send_all(socket_, out_.data(), bytes));
    }
    return {};
  }

  Result<void> ping_pong(std::size_t index, std::size_t round, Waits how) {
    const std::size_t bytes = sizes_[index];
    const std::size_t count = ping_pongs(bytes);
    PENSTOCK_TRY(play(bytes, count / 10 + 1, how));
    Result<void> done;
    const double ns = side_.burst([&] { done = play(bytes, count, how); });
    if (side_.index() == 0)
      samples_.record(row_count * index + (how == Waits::polling ? polled_row : latency_row), round,
                      ns / (2.0 * static_cast<double>(count)));
    return done;
  }

  /// From side 0 to side 1, which answers with one byte when all has arrived.
  Result<void> stream(std::size_t index, std::size_t round) {
    const std::size_t bytes = sizes_[index];
    const std::size_t count = streamed_messages(bytes);
    Result<void> done;
    const double ns = side_.burst([&] {
      for (std::size_t i = 0; i < count && done; ++i)
        done = side_.index() == 0 ? send_all(socket_, out_.data(), bytes)
                                  : receive_all(socket_, in_.data(), bytes);
      if (done)
        done = side_.index() == 0 ? receive_all(socket_, in_.data(), 1)
                                  : send_all(socket_, out_.data(), 1);
    });
    if (side_.index() == 0)
      samples_.record(row_count * index + bandwidth_row, round,
                      static_cast<double>(bytes * count) / ns * 1e3);
    return done;
  }

  Side& side_;
  int socket_;
  const std::vector<std::size_t>& sizes_;
  Samples& samples_;
  Buffer out_, in_;
};

Result<void> play(Side& side, int socket, const std::vector<std::size_t>& sizes, Samples& samples) {
  Bench bench(side, socket, sizes, samples);
  for (std::size_t round = 0; round < samples.rounds(); ++round) PENSTOCK_TRY(bench.round(round));
  side.meet();
  return {};
}

Result<void> measure_here(const Options& options, const std::vector<std::size_t>& sizes,
                          Samples& samples) {
  const auto ends = PENSTOCK_TRY(connection());
  return run_pair(options.pair(), [&](Side& side) {
    const auto& own = side.index() == 0 ? ends.first : ends.second;
    return play(side, own.get(), sizes, samples);
  });
}

Result<Report> measure(const Options& options, const std::vector<std::size_t>& sizes,
                       const std::string& peer) {
  Samples samples(row_count * sizes.size(), options.rounds);
  PENSTOCK_TRY(peer.empty() ? measure_here(options, sizes, samples)
                            : measure_with_peer(peer, sizes, samples));
  Report report("socket");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Figure figure{.series = peer.empty() ? "raw TCP socket" : "raw TCP socket to " + peer,
                        .bytes = sizes[i],
                        .procs = 2};
    Figure latency = figure, bandwidth = figure;
    latency.op = "latency", latency.metric = "latency_us";
    bandwidth.op = "bandwidth", bandwidth.metric = "bandwidth_MBps";
    Figure polled = latency;
    polled.series += ", polled";
    const auto values = [&](SocketRow row) { return samples.values(row_count * i + row); };
    report.add(std::move(latency), values(latency_row), 1e-3);
    report.add(std::move(polled), values(polled_row), 1e-3);
    report.add(std::move(bandwidth), values(bandwidth_row));
  }
  return report;
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  using namespace penstock::bench;
  Options options;
  options.rounds = 5;
  std::vector<std::size_t> sizes = {8, 4096, 65536, 1 << 20};
  std::string peer;
  std::uint16_t port = peer_port;
  bool serve = false;
  Program program{
      "A TCP socket of this host, between two processes, or to another host: latency and bandwidth "
      "without MPI"};
  program.add("--peer", peer, "HOST or HOST:PORT, where socket_bench --serve runs");
  program.add_flag("--serve", serve, "answer the --peer of any host, until Ctrl-C");
  program.add("--port", port, "of --serve");
  program.add("--sizes", sizes, "bytes", {{1, 1 << 26}});
  program.add("--rounds", options.rounds, "each size is measured once a round", {{1, 100000}});
  program.add("--json", options.json, "write the results to this file too");
  if (const auto status = program.parse(argc, argv)) return *status;
  if (serve) {
    const auto served = serve_peers(port);
    penstock::base::log(penstock::base::Level::error, "{}", served.error().message);
    return 1;
  }
  return run_modes(options, [&](auto) { return measure(options, sizes, peer); });
}
