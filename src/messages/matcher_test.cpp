#include "messages/matcher.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

namespace penstock::messages::matcher_test {
namespace {

class Recorder : public MatchReports, public MatchEvents {
 public:
  void on_received(const Received& received) override { done.push_back(received); }
  void on_receive_failure(const ReceiveFailure& failure) override { failures.push_back(failure); }
  Cause cause_of(const Error&) override { return {ECONNRESET, 1}; }
  void forget(Peer, std::uint64_t id) override { forgotten.push_back(id); }
  std::vector<Received> done;
  std::vector<std::uint64_t> forgotten;
  std::vector<ReceiveFailure> failures;
};

class MatcherTest : public ::testing::Test {
 protected:
  static Header tagged(std::uint64_t tag, std::size_t bytes) {
    return {.tag = tag, .data = 0, .bytes = bytes, .kind = kind_tagged};
  }
  static Header untagged(std::size_t bytes) {
    return {.tag = 0, .data = 0, .bytes = bytes, .kind = 0};
  }

  ReceiveRequest request(void* buffer, std::size_t bytes, std::uint64_t tag,
                         Peer source = any_source, std::uint64_t ignore = 0) {
    ReceiveRequest r;
    r.iov[0] = {buffer, bytes};
    r.iov_count = 1;
    r.tagged = true;
    r.tag = tag;
    r.ignore = ignore;
    r.source = source;
    r.context = buffer;
    return r;
  }
  ReceiveRequest multi(void* buffer, std::size_t bytes) {
    ReceiveRequest r = request(buffer, bytes, 0);
    r.tagged = false;
    r.multi = true;
    return r;
  }
  void say_this(Peer from, const Header& header, const void* payload) {
    matcher.message({.from = from, .header = header, .payload = payload});
  }
  ReceiveBuffer begin(Peer from, const Header& header) {
    return matcher.message({.from = from, .header = header});
  }
  void say(Peer from, std::uint64_t tag, const std::string& text) {
    say_this(from, tagged(tag, text.size()), text.data());
  }
  /// Fills a buffer as the transport does with a large message.
  static void fill(const ReceiveBuffer& receive_buffer, const std::string& text) {
    std::size_t done = 0;
    for (std::uint32_t i = 0; i < receive_buffer.iov_count && done < text.size(); ++i) {
      const std::size_t part = std::min(receive_buffer.iov[i].iov_len, text.size() - done);
      std::memcpy(receive_buffer.iov[i].iov_base, text.data() + done, part);
      done += part;
    }
  }

  Recorder events;
  Matcher matcher{events, events};
  char a[64] = {}, b[64] = {}, c[64] = {};
};

TEST_F(MatcherTest, ReceivePostedFirstGetsTheMessage) {
  ASSERT_EQ(matcher.post(request(a, sizeof(a), 7)), 0);
  say(3, 7, "hello");
  ASSERT_EQ(events.done.size(), 1u);
  EXPECT_EQ(events.done[0].context, a);
  EXPECT_EQ(events.done[0].bytes, 5u);
  EXPECT_EQ(events.done[0].from, 3u);
  EXPECT_EQ(events.done[0].kind, kind_tagged);
  EXPECT_STREQ(a, "hello");
  EXPECT_EQ(matcher.posted_count(), 0u);
}

TEST_F(MatcherTest, MessageThatCameFirstWaits) {
  say(3, 7, "hello");
  EXPECT_TRUE(events.done.empty());
  ASSERT_EQ(matcher.post(request(a, sizeof(a), 7)), 0);
  ASSERT_EQ(events.done.size(), 1u);
  EXPECT_STREQ(a, "hello");
}

TEST_F(MatcherTest, OrderHoldsOnBothSides) {
  say(1, 7, "first");
  say(1, 7, "second");
  matcher.post(request(a, sizeof(a), 7));
  matcher.post(request(b, sizeof(b), 7));
  EXPECT_STREQ(a, "first");
  EXPECT_STREQ(b, "second");
  matcher.post(request(c, sizeof(c), 7));
  matcher.post(request(b, sizeof(b), 0, any_source, ~0ull));
  std::memset(b, 0, sizeof(b));
  say(1, 7, "third");
  say(1, 7, "fourth");
  EXPECT_STREQ(c, "third");
  EXPECT_STREQ(b, "fourth");
}

TEST_F(MatcherTest, TagIgnoreMaskAndSourceSelect) {
  matcher.post(request(a, sizeof(a), 0x1100, 5, 0x00ff));
  say(4, 0x1142, "other source");
  say(5, 0x1242, "other tag");
  EXPECT_TRUE(events.done.empty());
  say(5, 0x1142, "mine");
  ASSERT_EQ(events.done.size(), 1u);
  EXPECT_STREQ(a, "mine");
  EXPECT_EQ(events.done[0].tag, 0x1142u);
  matcher.post(request(b, sizeof(b), 0x1242));
  EXPECT_STREQ(b, "other tag");
}

TEST_F(MatcherTest, TaggedAndUntaggedNeverMeet) {
  matcher.post(request(a, sizeof(a), 0, any_source, ~0ull));
  say_this(1, untagged(3), "abc");
  EXPECT_TRUE(events.done.empty());
  ReceiveRequest r = request(b, sizeof(b), 99);
  r.tagged = false;
  r.tag = 0;
  matcher.post(r);
  ASSERT_EQ(events.done.size(), 1u);
  EXPECT_EQ(events.done[0].kind, 0);
}

TEST_F(MatcherTest, TruncationTellsWhatWasLost) {
  matcher.post(request(a, 4, 7));
  say(1, 7, "123456");
  ASSERT_EQ(events.failures.size(), 1u);
  EXPECT_EQ(events.failures[0].error, EMSGSIZE);
  EXPECT_EQ(events.failures[0].what.bytes, 4u);
  EXPECT_EQ(events.failures[0].overflow, 2u);
  EXPECT_EQ(std::string(a, 6), std::string("1234\0\0", 6));
  say(1, 8, "123456");  // the same for a message that waited
  matcher.post(request(b, 4, 8));
  ASSERT_EQ(events.failures.size(), 2u);
  EXPECT_EQ(events.failures[1].overflow, 2u);
  EXPECT_EQ(std::string(b, 6), std::string("1234\0\0", 6));
}

TEST_F(MatcherTest, ScattersOverBuffers) {
  ReceiveRequest r = request(a, 2, 7);
  r.iov[1] = {b, 3};
  r.iov[2] = {c, 10};
  r.iov_count = 3;
  matcher.post(r);
  say(1, 7, "abcdefgh");
  EXPECT_STREQ(a, "ab");
  EXPECT_STREQ(b, "cde");
  EXPECT_STREQ(c, "fgh");
}

TEST_F(MatcherTest, LargeMessageLandsInThePostedBuffer) {
  matcher.post(request(a, sizeof(a), 7));
  const ReceiveBuffer receive_buffer = begin(2, tagged(7, 10));
  ASSERT_EQ(receive_buffer.iov_count, 1u);
  EXPECT_EQ(receive_buffer.iov[0].iov_base, a);
  EXPECT_TRUE(events.done.empty());
  fill(receive_buffer, "0123456789");
  receive_buffer.arrival->arrived();
  ASSERT_EQ(events.done.size(), 1u);
  EXPECT_EQ(events.done[0].bytes, 10u);
}

TEST_F(MatcherTest, ReceivePostedWhileTheMessageArrives) {
  const std::string text(5000, 'x');
  const ReceiveBuffer receive_buffer = begin(2, tagged(7, text.size()));
  std::vector<char> buffer(text.size());
  matcher.post(request(buffer.data(), buffer.size(), 7));
  EXPECT_TRUE(events.done.empty());
  fill(receive_buffer, text);
  receive_buffer.arrival->arrived();
  ASSERT_EQ(events.done.size(), 1u);
  EXPECT_EQ(std::string(buffer.begin(), buffer.end()), text);
}

TEST_F(MatcherTest, SmallMessageDoesNotOvertakeALargeOne) {
  const ReceiveBuffer receive_buffer = begin(2, tagged(7, 8));
  say(2, 7, "small");
  matcher.post(request(a, sizeof(a), 7));
  matcher.post(request(b, sizeof(b), 7));
  fill(receive_buffer, "large...");
  receive_buffer.arrival->arrived();
  EXPECT_STREQ(a, "large...");
  EXPECT_STREQ(b, "small");
}

TEST_F(MatcherTest, PeekLooksAndLeaves) {
  matcher.peek(request(nullptr, 0, 7), Matcher::Peek::look);
  ASSERT_EQ(events.failures.size(), 1u);
  EXPECT_EQ(events.failures[0].error, ENOMSG);
  say(4, 7, "there");
  matcher.peek(request(nullptr, 0, 7), Matcher::Peek::look);
  EXPECT_EQ(events.failures.size(), 2u) << "a wildcard sees it the second time";
  matcher.peek(request(nullptr, 0, 7), Matcher::Peek::look);
  ASSERT_EQ(events.done.size(), 1u);
  EXPECT_EQ(events.done[0].bytes, 5u);
  EXPECT_EQ(events.done[0].from, 4u);
  matcher.post(request(a, sizeof(a), 7));
  EXPECT_STREQ(a, "there");
}

TEST_F(MatcherTest, ClaimTakesTheMessageFromOthers) {
  say(4, 7, "claimed");
  ReceiveRequest claim = request(nullptr, 0, 7);
  claim.context = c;
  matcher.peek(claim, Matcher::Peek::claim);
  matcher.post(request(a, sizeof(a), 7));
  EXPECT_EQ(matcher.posted_count(), 1u);
  ReceiveRequest take = request(b, sizeof(b), 7);
  take.context = c;
  ASSERT_EQ(matcher.receive_claimed(take), 0);
  EXPECT_STREQ(b, "claimed");
  EXPECT_EQ(matcher.receive_claimed(take), -ENOMSG);
  say(4, 7, "next");
  EXPECT_STREQ(a, "next");
}

TEST_F(MatcherTest, DiscardDropsTheMessage) {
  say(4, 7, "dropped");
  matcher.peek(request(nullptr, 0, 7), Matcher::Peek::discard);
  say(4, 7, "also");
  ReceiveRequest claim = request(nullptr, 0, 7);
  matcher.peek(claim, Matcher::Peek::claim);
  ASSERT_EQ(matcher.discard_claimed(claim), 0);
  EXPECT_EQ(events.done.size(), 3u);
  matcher.post(request(a, sizeof(a), 7));
  EXPECT_EQ(matcher.posted_count(), 1u);
}

TEST_F(MatcherTest, DiscardWhileArriving) {
  const ReceiveBuffer receive_buffer = begin(2, tagged(7, 8));
  matcher.peek(request(nullptr, 0, 7), Matcher::Peek::discard);
  fill(receive_buffer, "whatever");
  receive_buffer.arrival->arrived();
  EXPECT_EQ(events.done.size(), 1u);  // only the peek
}

TEST_F(MatcherTest, CancelEndsAPostedReceiveOnly) {
  matcher.post(request(a, sizeof(a), 7));
  EXPECT_EQ(matcher.cancel(b), -ENOENT);
  EXPECT_EQ(matcher.cancel(a), 0);
  ASSERT_EQ(events.failures.size(), 1u);
  EXPECT_EQ(events.failures[0].error, ECANCELED);
  EXPECT_EQ(events.failures[0].what.context, a);
  EXPECT_EQ(matcher.cancel(a), -ENOENT);
  say(1, 7, "kept");
  matcher.post(request(b, sizeof(b), 7));
  EXPECT_STREQ(b, "kept");
}

TEST_F(MatcherTest, MultiReceivePacksUntilTooLittleRemains) {
  matcher.set_min_multi_receive(10);
  matcher.post(multi(a, 30));
  say_this(1, untagged(8), "11111111");
  say_this(1, untagged(8), "22222222");
  ASSERT_EQ(events.done.size(), 2u);
  EXPECT_EQ(events.done[0].buffer, a);
  EXPECT_EQ(events.done[1].buffer, a + 8);
  EXPECT_FALSE(events.done[1].released);
  say_this(1, untagged(8), "33333333");  // leaves 6
  ASSERT_EQ(events.done.size(), 3u);
  EXPECT_TRUE(events.done[2].released);
  EXPECT_EQ(matcher.posted_count(), 0u);
  EXPECT_EQ(std::string(a, 24), "111111112222222233333333");
}

TEST_F(MatcherTest, LastMessageInFlightReleasesMultiReceive) {
  matcher.set_min_multi_receive(10);
  matcher.post(multi(a, 30));
  const ReceiveBuffer slow = begin(1, untagged(16));
  say_this(2, untagged(8), "22222222");  // retires the buffer while the first is arriving
  ASSERT_EQ(events.done.size(), 1u);
  EXPECT_FALSE(events.done[0].released);
  fill(slow, "1111111111111111");
  slow.arrival->arrived();
  ASSERT_EQ(events.done.size(), 2u);
  EXPECT_TRUE(events.done[1].released);
  EXPECT_EQ(std::string(a, 24), "111111111111111122222222");
}

TEST_F(MatcherTest, MultiReceiveTakesWhatCameBefore) {
  matcher.set_min_multi_receive(8);
  say_this(1, untagged(4), "1111");
  const ReceiveBuffer coming = begin(1, untagged(12));
  say_this(1, untagged(4), "3333");
  matcher.post(multi(a, 24));
  ASSERT_EQ(events.done.size(), 2u);
  EXPECT_EQ(matcher.posted_count(), 0u);  // 4 bytes remain
  fill(coming, "222222222222");
  coming.arrival->arrived();
  ASSERT_EQ(events.done.size(), 3u);
  EXPECT_TRUE(events.done[2].released);
  EXPECT_EQ(std::string(a, 20), "11112222222222223333");
}

TEST_F(MatcherTest, ReportsMultiReceiveReleaseWithoutSuccesses) {
  matcher.set_min_multi_receive(8);
  ReceiveRequest r = multi(a, 16);
  r.report = false;
  matcher.post(r);
  say_this(1, untagged(4), "1111");
  say_this(1, untagged(8), "22222222");
  ASSERT_EQ(events.done.size(), 2u);
  EXPECT_FALSE(events.done[0].report);
  EXPECT_TRUE(events.done[1].report);
}

TEST_F(MatcherTest, CancelledMultiReceiveAwaitsMessagesInFlight) {
  matcher.set_min_multi_receive(8);
  matcher.post(multi(a, sizeof(a)));
  const ReceiveBuffer coming = begin(1, untagged(16));
  ASSERT_EQ(matcher.cancel(a), 0);
  EXPECT_TRUE(events.failures.empty());
  fill(coming, "1111111111111111");
  coming.arrival->arrived();
  ASSERT_EQ(events.done.size(), 1u);
  ASSERT_EQ(events.failures.size(), 1u);
  EXPECT_EQ(events.failures[0].error, ECANCELED);
}

TEST_F(MatcherTest, DeathFailsReceivesFromItAndFromAny) {
  matcher.post(request(a, sizeof(a), 1, 5));
  matcher.post(request(b, sizeof(b), 2, any_source));
  matcher.post(request(c, sizeof(c), 3, 6));
  matcher.peer_dead(5, 1, ECONNRESET, 42);
  ASSERT_EQ(events.failures.size(), 2u);
  EXPECT_EQ(events.failures[0].what.context, a);
  EXPECT_EQ(events.failures[1].what.context, b);
  EXPECT_EQ(events.failures[0].detail, 42);
  say(6, 3, "alive");
  EXPECT_STREQ(c, "alive");
}

/// Makes a tag: the communicator's context is in the upper half.
constexpr std::uint64_t in_context(std::uint64_t context, std::uint64_t tag) {
  return context << 32 | tag;
}

TEST_F(MatcherTest, DeathFailsReceivesOnlyInItsContexts) {
  matcher.sends_to(5, in_context(7, 1));
  say(5, in_context(8, 1), "unexpected");
  matcher.post(request(a, sizeof(a), in_context(6, 1), any_source));
  matcher.post(request(b, sizeof(b), in_context(7, 2), any_source));
  matcher.post(request(c, sizeof(c), in_context(9, 0), 5));
  matcher.peer_dead(5, 1, ECONNRESET, 42);
  ASSERT_EQ(events.failures.size(), 2u);
  EXPECT_EQ(events.failures[0].what.context, b);
  EXPECT_EQ(events.failures[1].what.context, c);
  say(6, in_context(6, 1), "goes on");
  EXPECT_STREQ(a, "goes on");
  // Receives that are posted later fail too.
  matcher.post(request(a, sizeof(a), in_context(6, 3), any_source));
  EXPECT_EQ(events.failures.size(), 2u);
  for (const std::uint64_t context : {7, 8, 9})
    matcher.post(request(b, sizeof(b), in_context(context, 3), any_source));
  EXPECT_EQ(events.failures.size(), 5u);
  ReceiveRequest open = request(b, sizeof(b), in_context(7, 0), any_source);
  open.ignore = 0xffffffff;  // any tag, in a context that the dead peer did not use
  open.tag = in_context(6, 0);
  matcher.post(open);
  EXPECT_EQ(events.failures.size(), 5u);
  open.tag = in_context(7, 0);
  matcher.post(open);
  EXPECT_STREQ(b, "");
  EXPECT_EQ(events.failures.size(), 6u);
}

TEST_F(MatcherTest, ProbeForTheDeadFails) {
  say(5, in_context(7, 1), "left behind");
  matcher.peer_dead(5, 1, ECONNRESET, 42);
  matcher.peek(request(nullptr, 0, in_context(7, 1), 5), Matcher::Peek::look);
  ASSERT_EQ(events.done.size(), 1u);
  matcher.peek(request(nullptr, 0, in_context(7, 2), 5), Matcher::Peek::look);
  matcher.peek(request(nullptr, 0, in_context(7, 2), any_source), Matcher::Peek::look);
  matcher.peek(request(nullptr, 0, in_context(6, 2), any_source), Matcher::Peek::look);
  ASSERT_EQ(events.failures.size(), 3u);
  EXPECT_EQ(events.failures[0].error, ECONNRESET);
  EXPECT_EQ(events.failures[1].error, ECONNRESET);
  EXPECT_EQ(events.failures[2].error, ENOMSG);
}

/// MPICH posts multi-receive buffers for requests of all ranks.
TEST_F(MatcherTest, DeathEndsNoBufferForWhoeverComes) {
  matcher.post(multi(a, sizeof(a)));
  matcher.peer_dead(5, 1, ECONNRESET, 42);
  EXPECT_TRUE(events.failures.empty());
  say_this(6, untagged(3), "on");
  ASSERT_EQ(events.done.size(), 1u);
  matcher.post(multi(b, sizeof(b)));
  EXPECT_TRUE(events.failures.empty());
}

/// Contexts of an earlier peer do not count for a later peer of the same number.
TEST_F(MatcherTest, LaterPeerWithTheSameNumberStartsAfresh) {
  matcher.sends_to(5, in_context(7, 1));
  matcher.peer_left(5, 1, ECONNRESET, 42);
  matcher.peer_present(5, 2);
  matcher.post(request(a, sizeof(a), in_context(7, 1), any_source));
  matcher.peer_dead(5, 2, ECONNRESET, 42);
  EXPECT_TRUE(events.failures.empty());
}

/// A receive that names a peer that has left fails; wildcard receives continue.
TEST_F(MatcherTest, LeavingFailsWhatNamesTheOneThatLeft) {
  matcher.post(request(a, sizeof(a), 1, 5));
  matcher.post(request(b, sizeof(b), 2, any_source));
  matcher.peer_left(5, 1, ECONNRESET, 42);
  ASSERT_EQ(events.failures.size(), 1u);
  EXPECT_EQ(events.failures[0].what.context, a);
  say(6, 2, "goes on");
  EXPECT_STREQ(b, "goes on");
  matcher.post(request(c, sizeof(c), 3, 5));
  EXPECT_EQ(events.failures.size(), 2u);
}

TEST_F(MatcherTest, SourceThatIsGoneFailsWhatNamesIt) {
  matcher.number_sources(9);
  matcher.post(request(a, sizeof(a), 1, 5));
  matcher.post(request(b, sizeof(b), 2, any_source));
  matcher.source_gone(5, ECONNRESET, 42);
  ASSERT_EQ(events.failures.size(), 1u);
  EXPECT_EQ(events.failures[0].what.context, a);
  matcher.source_gone(any_source, ECONNRESET, 42);
  ASSERT_EQ(events.failures.size(), 2u);
  EXPECT_EQ(events.failures[1].what.context, b);
  matcher.post(request(c, sizeof(c), in_context(7, 3), any_source));
  EXPECT_EQ(events.failures.size(), 3u);
  matcher.post(request(c, sizeof(c), 3, 6));
  EXPECT_EQ(events.failures.size(), 3u);
}

TEST_F(MatcherTest, ReceiveAfterADeathTakesOnlyArrivedMessages) {
  say(5, 1, "left behind");
  matcher.peer_dead(5, 1, ECONNRESET, 42);
  matcher.post(request(a, sizeof(a), 1, 5));
  EXPECT_STREQ(a, "left behind");
  matcher.post(request(b, sizeof(b), 1, 5));
  ASSERT_EQ(events.failures.size(), 1u);
  EXPECT_EQ(events.failures[0].error, ECONNRESET);
  EXPECT_EQ(matcher.posted_count(), 0u);
}

TEST_F(MatcherTest, LaterPeerOfTheSameNumberLives) {
  matcher.peer_dead(5, 1, ECONNRESET, 42);
  matcher.peer_present(5, 1);  // the dead peer itself
  matcher.post(request(a, sizeof(a), 1, 5));
  EXPECT_EQ(events.failures.size(), 1u);
  matcher.peer_present(5, 2);
  matcher.post(request(a, sizeof(a), 1, 5));
  matcher.post(request(b, sizeof(b), 2, any_source));
  EXPECT_EQ(events.failures.size(), 1u);
  EXPECT_EQ(matcher.posted_count(), 2u);
}

TEST_F(MatcherTest, FailureOfAHalfReceivedMessage) {
  matcher.post(request(a, sizeof(a), 1));
  const ReceiveBuffer direct = begin(5, tagged(1, 32));
  direct.arrival->failed({ErrorCode::peer_dead, "died"});
  ASSERT_EQ(events.failures.size(), 1u);
  EXPECT_EQ(events.failures[0].what.context, a);
  const ReceiveBuffer kept = begin(5, tagged(2, 32));
  kept.arrival->failed({ErrorCode::peer_dead, "died"});
  matcher.post(request(b, sizeof(b), 2));
  EXPECT_EQ(matcher.posted_count(), 1u);  // nothing of it is left to match
  EXPECT_EQ(events.failures.size(), 1u);
}

/// An endpoint may close in this state. The leak sanitizer checks the result.
TEST_F(MatcherTest, FreesPayloadsStillArrivingAtTheEnd) {
  std::string text(5000, 'x');
  begin(2, tagged(1, text.size()));  // no receive matches it
  begin(2, tagged(2, text.size()));
  matcher.post(request(text.data(), text.size(), 2));
  begin(2, tagged(3, text.size()));
  matcher.peek(request(nullptr, 0, 3), Matcher::Peek::discard);
  begin(2, tagged(4, text.size()));
  const ReceiveRequest claim = request(nullptr, 0, 4);
  matcher.peek(claim, Matcher::Peek::claim);
  ASSERT_EQ(matcher.discard_claimed(claim), 0);
  EXPECT_EQ(matcher.posted_count(), 0u);
}

/// A peer that lives is told that its announcement was refused; one that has left is not.
TEST_F(MatcherTest, RefusedPeerMayForgetWhatItAnnounced) {
  Announcement what{77, 5};
  Header header = tagged(7, sizeof what);
  header.kind |= kind_announced;
  for (const Peer peer : {2u, 3u}) {
    what.id = 70 + peer;
    say_this(peer, header, &what);
  }
  matcher.peer_left(2, 1, ECONNRESET, 42);
  for (int i = 0; i < 2; ++i) matcher.refuse(3, 1, ENOMEM, 43);
  EXPECT_EQ(events.forgotten, std::vector<std::uint64_t>{73});
  EXPECT_EQ(matcher.unexpected().announced, 0u);
  matcher.post(request(a, sizeof(a), 7, 3));
  ASSERT_EQ(events.failures.size(), 1u);
  EXPECT_EQ(events.failures[0].error, ENOMEM);
}

TEST_F(MatcherTest, NonsenseAboutAnnouncedMessagesIsIgnored) {
  Announcement what{77, ~0ull};
  Header header = tagged(7, sizeof what);
  header.kind |= kind_announced;
  say_this(2, header, &what);  // longer than any message
  what.bytes = 5;
  header.kind = kind_announced;
  say_this(2, header, &what);  // not tagged
  header = tagged(7, 3);
  header.kind |= kind_announced;
  say_this(2, header, &what);  // too short
  EXPECT_EQ(matcher.unexpected().announced, 0u);
  header = tagged(7, sizeof what);
  header.kind |= kind_announced;
  say_this(2, header, &what);
  matcher.post(request(a, sizeof(a), 7));
  const auto payload = [&](Peer from, std::uint64_t token, std::uint64_t id, std::size_t bytes) {
    const Header of_payload{.tag = token, .data = id, .bytes = bytes, .kind = 0};
    matcher.payload({.from = from, .header = of_payload, .payload = "12345678"});
  };
  payload(3, 1, 77, 5);  // from another sender
  payload(2, 2, 77, 5);  // for a fetch that was never made
  payload(2, 1, 78, 5);  // for another message
  payload(2, ~0ull, 77, 5);
  EXPECT_TRUE(events.done.empty());
  payload(2, 1, 77, 3);  // shorter than was announced
  ASSERT_EQ(events.done.size(), 1u);
  EXPECT_EQ(events.done[0].bytes, 3u);
  payload(2, 1, 77, 5);
  EXPECT_EQ(events.done.size(), 1u);
  EXPECT_EQ(matcher.unexpected().bytes, 0u);
}

TEST_F(MatcherTest, CountsKeptBytesUntilTheyAreTaken) {
  say(1, 7, std::string(10, 'x'));
  const std::uint64_t one = matcher.unexpected().bytes;
  EXPECT_EQ(matcher.unexpected().messages, 1u);
  say(1, 7, std::string(500, 'x'));
  EXPECT_EQ(matcher.unexpected().bytes, 2 * one + 512);
  const ReceiveBuffer kept = begin(1, tagged(7, 5000));
  EXPECT_EQ(matcher.unexpected().bytes, 3 * one + 512 + 5000);
  for (int i = 0; i < 3; ++i) matcher.post(request(a, sizeof(a), 7));
  EXPECT_EQ(matcher.unexpected().messages, 1u) << "the last is still on its way";
  kept.arrival->arrived();
  EXPECT_EQ(matcher.unexpected().bytes, 0u);
  EXPECT_EQ(matcher.unexpected().peak_bytes, 3 * one + 512 + 5000);
}

TEST_F(MatcherTest, CompletionDataIsFlagged) {
  matcher.post(request(a, sizeof(a), 1));
  Header header = tagged(1, 0);
  header.kind |= kind_of_user;
  header.data = 0x0123456789abcdefull;
  say_this(9, header, nullptr);
  ASSERT_EQ(events.done.size(), 1u);
  EXPECT_EQ(events.done[0].kind & kind_of_user, kind_of_user);
  EXPECT_EQ(events.done[0].data, 0x0123456789abcdefull);
}

TEST_F(MatcherTest, FloodOfUnexpectedMessagesComesBackInOrder) {
  constexpr int count = 3000;
  for (int i = 0; i < count; ++i) {
    const std::string text = std::to_string(i) + std::string(i % 900, '.');
    say(1, 7, text);
  }
  for (int i = 0; i < count; ++i) {
    std::vector<char> buffer(1000);
    matcher.post(request(buffer.data(), buffer.size(), 7));
    ASSERT_EQ(events.done.size(), static_cast<std::size_t>(i + 1));
    EXPECT_EQ(std::atoi(buffer.data()), i);
  }
}

}  // namespace
}  // namespace penstock::messages::matcher_test
