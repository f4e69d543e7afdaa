// Pages and their owners, without a model: who may write where, and when memory comes and goes.
#include "engine/page_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "tests/support/runner.h"

namespace ds4::test {
namespace {

// Counts what is allocated and given back.
class CountingDevice : public Device {
 public:
  Result<Buffer> allocate(int64_t size_bytes) override {
    if (allocated + size_bytes > limit) return fail(ErrorCode::kOutOfMemory, "device is full");
    allocated += size_bytes;
    DS4_TRY(Buffer inner, host_.allocate(size_bytes));
    auto keep = std::make_shared<Buffer>(std::move(inner));
    std::byte* data = keep->data();
    return Buffer(data, size_bytes,
                  [this, keep, size_bytes](std::byte*) { allocated -= size_bytes; });
  }
  void upload(std::byte* d, std::span<const std::byte> h) override { host_.upload(d, h); }
  void download(std::span<std::byte> h, const std::byte* d) override { host_.download(h, d); }
  void copy(std::byte* d, const std::byte* s, int64_t n) override { host_.copy(d, s, n); }
  Result<void> synchronize() override { return {}; }
  std::string description() const override { return "counting"; }

  int64_t allocated = 0;
  int64_t limit = INT64_MAX;

 private:
  HostDevice host_{"host"};
};

TEST(PagePool, HandsOutEveryPageOnceAndTakesItBack) {
  CountingDevice device;
  PagePool pool(device, 128);
  must(pool.reserve(3));
  EXPECT_EQ(device.allocated, 3 * 128);
  PageRef a = pool.take(), b = pool.take(), c = pool.take();
  EXPECT_TRUE(a.data() != b.data() && b.data() != c.data() && a.data() != c.data());
  EXPECT_TRUE(pool.take().empty());
  const std::byte* freed = b.data();
  b = {};
  EXPECT_EQ(pool.n_free(), 1);
  b = pool.take();
  EXPECT_EQ(b.data(), freed);
  PageRef moved = std::move(b), copy = moved;
  moved = {};
  EXPECT_EQ(pool.n_free(), 0);  // the copy still owns it
  copy = {};
  EXPECT_EQ(pool.n_free(), 1);
}

// Whoever looks at a row keeps it as it is: an owner may write where nobody else looks.
TEST(PagePool, ARowThatNobodyElseSeesIsWritable) {
  CountingDevice device;
  PagePool pool(device, 128);
  must(pool.reserve(1));
  PageRef session = pool.take();
  session.set_rows(10);
  EXPECT_TRUE(session.writable(3));
  PageRef snapshot = session, fork = snapshot;
  EXPECT_FALSE(session.writable(9));
  EXPECT_TRUE(session.writable(10));
  session.set_rows(11);
  EXPECT_FALSE(fork.writable(10));  // the fork comes second
  EXPECT_TRUE(session.writable(11));
  session.set_rows(10);  // went back to the snapshot: its own row 10 is nobody's now
  EXPECT_TRUE(session.writable(10));
  EXPECT_TRUE(fork.writable(10));
  snapshot = {};
  fork = {};
  EXPECT_TRUE(session.writable(0));
}

// Copies, moves and ends in any order leave one ring of exactly the living owners.
TEST(PagePool, OwnersComeAndGoInAnyOrder) {
  CountingDevice device;
  PagePool pool(device, 128);
  must(pool.reserve(2));
  std::mt19937 random(7);
  std::vector<PageRef> owners;
  owners.push_back(pool.take());
  for (int i = 0; i < 2000; ++i) {
    if (owners.empty()) owners.push_back(pool.take());
    const size_t at = random() % owners.size();
    switch (random() % 4) {
      case 0:
        owners.push_back(owners[at]);  // the vector moves them all now and then
        owners.back().set_rows(static_cast<int64_t>(random() % 50));
        break;
      case 1:
        owners.erase(owners.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 2:
        owners[at] = PageRef(owners[random() % owners.size()]);
        break;
      default:
        owners[at] = owners[random() % owners.size()];
    }
    EXPECT_EQ(pool.n_free(), owners.empty() ? 2 : 1);
    if (owners.size() < 2) continue;
    owners[0].set_rows(60);  // all the others see that one
    for (size_t k = 1; k < owners.size(); ++k) EXPECT_FALSE(owners[k].writable(59));
    EXPECT_TRUE(owners[0].writable(59));
    owners[0].set_rows(0);
  }
}

TEST(PagePool, ReservationsAddUpAndFreeSlabsGoBack) {
  CountingDevice device;
  PagePool pool(device, 128);
  must(pool.reserve(4));
  must(pool.reserve(6));
  EXPECT_EQ(device.allocated, 10 * 128);
  std::optional<PageRef> kept = pool.take();
  pool.unreserve(6);
  pool.unreserve(4);
  EXPECT_LT(pool.n_pages(), 10);  // one slab was free
  EXPECT_GE(pool.n_pages(), 1);   // the kept page's slab stays
  std::memset(kept->data(), 1, 128);
  must(pool.reserve(2));  // fits into what is there
  EXPECT_LE(device.allocated, 10 * 128);
  kept.reset();
  pool.unreserve(2);
  EXPECT_EQ(device.allocated, 0);
  EXPECT_EQ(pool.n_pages(), 0);
  EXPECT_EQ(pool.n_free(), 0);
}

TEST(PagePool, ARefusedReservationChangesNothing) {
  CountingDevice device;
  device.limit = 500;
  PagePool pool(device, 128);
  must(pool.reserve(3));
  const auto refused = pool.reserve(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(pool.n_pages(), 3);
  pool.unreserve(3);
  EXPECT_EQ(device.allocated, 0);
}

}  // namespace
}  // namespace ds4::test
