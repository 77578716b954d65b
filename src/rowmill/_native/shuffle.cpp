// Random orders that are functions of a key: Fisher-Yates, Rao-Sandelius, and a Feistel permutation.
#include "native.hpp"
#include "splitmix.hpp"

#include <algorithm>

namespace rowmill {

namespace {

// Fisher-Yates shuffle. The draw has 53 random bits, so its bias is below 2^-21.
void fisher_yates(std::uint32_t* items, std::size_t count, std::uint64_t key) {
    std::uint64_t counter = key;
    for (std::size_t i = count; i-- > 1;) {
        counter += kGolden;
        const double drawn = static_cast<double>(static_cast<std::int64_t>(mix(counter) >> 11)) * 0x1p-53;
        std::swap(items[i], items[static_cast<std::size_t>(drawn * static_cast<double>(i + 1))]);
    }
}

// One round: add to `moved` an amount below `limit` (at most 2^31) that is drawn from `fixed`, modulo `limit`.
void feistel_round(std::uint32_t* moved, const std::uint32_t* fixed, std::uint32_t key, std::uint32_t limit,
                   std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        std::uint32_t z = (fixed[i] ^ key) * 0x85EBCA6Bu;
        z = (z ^ (z >> 15)) * 0xC2B2AE35u;
        const auto drawn = static_cast<std::uint32_t>((static_cast<std::uint64_t>(z) * limit) >> 32);
        const std::uint32_t sum = moved[i] + drawn;
        moved[i] = std::min(sum, sum - limit);  // the second is huge if it would be negative
    }
}

struct Grid {
    std::uint32_t height, width;
    const std::uint32_t* keys;
};

// Where the cells (y, x), (y, x + 1), ... of a grid go. A round at a time over a tile, so that it vectorizes.
void feistel_cells(std::int64_t* cells, std::size_t count, std::uint64_t y, std::uint64_t x, const Grid& grid) {
    constexpr std::size_t kTile = 1024;
    std::uint32_t ys[kTile], xs[kTile];
    for (std::size_t start = 0; start < count; start += kTile) {
        const std::size_t tile = std::min(kTile, count - start);
        for (std::size_t i = 0; i < tile; ++i) {
            ys[i] = static_cast<std::uint32_t>(y);
            xs[i] = static_cast<std::uint32_t>(x + start + i);
        }
        for (int round = 0; round < 6; round += 2) {
            feistel_round(ys, xs, grid.keys[round], grid.height, tile);
            feistel_round(xs, ys, grid.keys[round + 1], grid.width, tile);
        }
        for (std::size_t i = 0; i < tile; ++i)
            cells[start + i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(ys[i]) * grid.width + xs[i]);
    }
}

}  // namespace

void shuffle(const MutableVector<std::uint32_t>& items, std::uint64_t key) {
    nb::gil_scoped_release unlocked;
    fisher_yates(items.data(), items.shape(0), key);
}

void shuffle_segments(const MutableVector<std::uint32_t>& items, std::size_t segment, std::uint64_t key) {
    require(segment > 0, "segments without items");
    nb::gil_scoped_release unlocked;
    std::uint64_t number = 0;
    for (std::size_t start = 0; start < items.shape(0); start += segment)
        fisher_yates(items.data() + start, std::min(segment, items.shape(0) - start), mix(key ^ ++number));
}

// Rao-Sandelius shuffle (Rao 1961, Sandelius 1962): every row draws a bin, the bins stand one after another, and each is
// shuffled by itself, while it is in the cache.
void random_places(const MutableVector<std::uint32_t>& places, const MutableVector<std::uint16_t>& drawn,
                   const MutableVector<std::uint32_t>& shuffled, std::size_t bins, std::uint64_t key) {
    const std::size_t rows = places.shape(0);
    require(bins > 0 && bins <= 65'536, "bins need numbers of 16 bits");
    require(drawn.shape(0) >= (rows + 3) / 4 * 4 && shuffled.shape(0) >= rows, "less room than rows");
    nb::gil_scoped_release unlocked;
    std::uint16_t* bin = drawn.data();
    for (std::size_t i = 0; i < (rows + 3) / 4; ++i) {  // four draws of 16 bits from each number
        const std::uint64_t z = mix(key + (i + 1) * kGolden);
        for (int part = 0; part < 4; ++part)
            bin[4 * i + part] = static_cast<std::uint16_t>((((z >> (16 * part)) & 0xFFFF) * bins) >> 16);
    }
    std::vector<std::uint32_t> next(bins + 1, 0);  // first the rows of each bin, then the next place of each
    for (std::size_t row = 0; row < rows; ++row) ++next[bin[row] + 1u];
    for (std::size_t number = 0; number < bins; ++number) {
        const std::uint32_t first = next[number], last = first + next[number + 1];
        for (std::uint32_t place = first; place < last; ++place) shuffled.data()[place] = place;
        fisher_yates(shuffled.data() + first, last - first, mix(key ^ (number + 1)));
        next[number + 1] = last;
    }
    for (std::size_t row = 0; row < rows; ++row) places.data()[row] = shuffled.data()[next[bin[row]]++];
}

// Six rounds of a Feistel network on a grid of height x width cells, with cycle walking for the cells beyond `total`
// (Black and Rogaway 2002): any part of a random order of all rows, without the rest of it.
void feistel_rows(const MutableVector<std::int64_t>& rows, std::uint64_t first, std::uint64_t total,
                  std::uint64_t height, std::uint64_t width, const Vector<std::uint32_t>& keys) {
    require(keys.shape(0) == 6, "a Feistel permutation of six rounds needs six keys");
    require(height > 0 && width > 0 && height <= (1u << 31) && width <= (1u << 31) && total <= height * width &&
                first <= total && rows.shape(0) <= total - first,
            "rows beyond the table");
    const Grid grid{static_cast<std::uint32_t>(height), static_cast<std::uint32_t>(width), keys.data()};
    nb::gil_scoped_release unlocked;
    std::uint64_t y = first / width, x = first % width;
    for (std::size_t done = 0; done < rows.shape(0); ++y, x = 0) {
        const std::size_t count = std::min<std::size_t>(rows.shape(0) - done, width - x);
        feistel_cells(rows.data() + done, count, y, x, grid);
        done += count;
    }
    for (std::size_t i = 0; i < rows.shape(0); ++i) {
        std::int64_t& row = rows.data()[i];
        while (static_cast<std::uint64_t>(row) >= total)
            feistel_cells(&row, 1, static_cast<std::uint64_t>(row) / width, static_cast<std::uint64_t>(row) % width, grid);
    }
}

}  // namespace rowmill
