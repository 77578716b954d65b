// Open-addressing hash tables of whole numbers (Fibonacci hashing, linear probing), and hashes of rows.
#include "native.hpp"
#include "splitmix.hpp"

#include <algorithm>

namespace rowmill {

namespace {

// The slots of a table whose size is a power of two.
class Slots {
   public:
    explicit Slots(std::size_t size) : mask_(size - 1), shift_(64) {
        require(size >= 2 && (size & mask_) == 0, "a hash table whose size is not a power of two");
        while (size >>= 1) --shift_;
    }
    std::size_t first(std::int64_t key) const { return (static_cast<std::uint64_t>(key) * kGolden) >> shift_; }
    std::size_t next(std::size_t slot) const { return (slot + 1) & mask_; }
    std::size_t size() const { return mask_ + 1; }

   private:
    std::size_t mask_;
    unsigned shift_;
};

}  // namespace

// Count values from `start` on, until `room` keys are used. A slot without a count is empty. Gives where it stopped, and
// how many keys are used.
std::pair<std::size_t, std::size_t> count_into(const Vector<std::int64_t>& values, std::size_t start,
                                               const MutableVector<std::int64_t>& keys,
                                               const MutableVector<std::int64_t>& counts, std::size_t used,
                                               std::size_t room) {
    const Slots slots(keys.shape(0));
    require(counts.shape(0) == keys.shape(0) && room < slots.size(), "a hash table without an empty slot");
    nb::gil_scoped_release unlocked;
    for (std::size_t i = start; i < values.shape(0); ++i) {
        const std::int64_t value = values.data()[i];
        std::size_t slot = slots.first(value);
        while (counts.data()[slot] && keys.data()[slot] != value) slot = slots.next(slot);
        if (counts.data()[slot] == 0) {
            if (used >= room) return {i, used};
            keys.data()[slot] = value;
            ++used;
        }
        ++counts.data()[slot];
    }
    return {std::max(start, values.shape(0)), used};
}

// Add counted keys (those with a count) to a table that has room for all of them. Gives how many were new.
std::size_t put_counts(const Vector<std::int64_t>& new_keys, const Vector<std::int64_t>& new_counts,
                       const MutableVector<std::int64_t>& keys, const MutableVector<std::int64_t>& counts) {
    const Slots slots(keys.shape(0));
    require(counts.shape(0) == keys.shape(0) && new_counts.shape(0) == new_keys.shape(0), "keys without counts");
    nb::gil_scoped_release unlocked;
    std::size_t taken = 0, used = 0;
    for (std::size_t slot = 0; slot < slots.size(); ++slot) taken += counts.data()[slot] != 0;
    for (std::size_t i = 0; i < new_keys.shape(0); ++i) {
        if (new_counts.data()[i] == 0) continue;
        const std::int64_t value = new_keys.data()[i];
        std::size_t slot = slots.first(value);
        while (counts.data()[slot] && keys.data()[slot] != value) slot = slots.next(slot);
        if (counts.data()[slot] == 0) {
            require(taken + ++used < slots.size(), "a hash table without an empty slot");
            keys.data()[slot] = value;
        }
        counts.data()[slot] += new_counts.data()[i];
    }
    return used;
}

// An index of different keys of 32 bits: key in the high half of a slot, place + 1 in the low half, 0 if empty.
void build_narrow_index(const Vector<std::int64_t>& keys, const MutableVector<std::int64_t>& table) {
    const Slots slots(table.shape(0));
    require(keys.shape(0) < slots.size() && keys.shape(0) < (1u << 31), "an index without an empty slot");
    nb::gil_scoped_release unlocked;
    for (std::size_t place = 0; place < keys.shape(0); ++place) {
        std::size_t slot = slots.first(keys.data()[place]);
        while (table.data()[slot]) slot = slots.next(slot);
        const auto key = static_cast<std::uint64_t>(keys.data()[place]);
        table.data()[slot] = static_cast<std::int64_t>((key << 32) | (place + 1));
    }
}

// The place of each value among the keys, or -1.
void find_narrow(const Vector<std::int64_t>& values, const Vector<std::int64_t>& table,
                 const MutableVector<std::int32_t>& places) {
    const Slots slots(table.shape(0));
    require(places.shape(0) == values.shape(0), "places need one number for each value");
    nb::gil_scoped_release unlocked;
    for (std::size_t i = 0; i < values.shape(0); ++i) {
        const std::int64_t value = values.data()[i];
        std::size_t slot = slots.first(value);
        while (table.data()[slot] && (table.data()[slot] >> 32) != value) slot = slots.next(slot);
        places.data()[i] = static_cast<std::int32_t>(table.data()[slot] & 0xFFFFFFFF) - 1;
    }
}

// An index of different keys of 64 bits: a slot is two numbers, a key and its place + 1.
void build_wide_index(const Vector<std::int64_t>& keys, const MutableVector<std::int64_t>& table) {
    const Slots slots(table.shape(0) / 2);
    require(keys.shape(0) < slots.size() && keys.shape(0) < (1u << 31), "an index without an empty slot");
    nb::gil_scoped_release unlocked;
    for (std::size_t place = 0; place < keys.shape(0); ++place) {
        std::size_t slot = slots.first(keys.data()[place]);
        while (table.data()[2 * slot + 1]) slot = slots.next(slot);
        table.data()[2 * slot] = keys.data()[place];
        table.data()[2 * slot + 1] = static_cast<std::int64_t>(place + 1);
    }
}

void find_wide(const Vector<std::int64_t>& values, const Vector<std::int64_t>& table,
               const MutableVector<std::int32_t>& places) {
    const Slots slots(table.shape(0) / 2);
    require(places.shape(0) == values.shape(0), "places need one number for each value");
    nb::gil_scoped_release unlocked;
    for (std::size_t i = 0; i < values.shape(0); ++i) {
        const std::int64_t value = values.data()[i];
        std::size_t slot = slots.first(value);
        while (table.data()[2 * slot + 1] && table.data()[2 * slot] != value) slot = slots.next(slot);
        places.data()[i] = static_cast<std::int32_t>(table.data()[2 * slot + 1]) - 1;
    }
}

// Mix each value into its hash so far.
void hash_numbers(const Vector<std::int64_t>& values, const MutableVector<std::uint64_t>& hashes) {
    require(hashes.shape(0) == values.shape(0), "hashes need one number for each value");
    nb::gil_scoped_release unlocked;
    for (std::size_t i = 0; i < values.shape(0); ++i)
        hashes.data()[i] = mix(hashes.data()[i] * kGolden + static_cast<std::uint64_t>(values.data()[i]) + kGolden);
}

// Mix each string (bytes offsets[i] to offsets[i + 1]) into its hash so far, eight bytes at a time.
void hash_bytes(const Vector<std::int64_t>& offsets, const Vector<std::uint8_t>& data,
                const MutableVector<std::uint64_t>& hashes) {
    require(offsets.shape(0) == hashes.shape(0) + 1, "strings need one offset more than there are hashes");
    const auto size = static_cast<std::int64_t>(data.shape(0));
    nb::gil_scoped_release unlocked;
    for (std::size_t i = 0; i < hashes.shape(0); ++i) {
        std::int64_t start = offsets.data()[i];
        const std::int64_t stop = offsets.data()[i + 1];
        require(0 <= start && start <= stop && stop <= size, "a string beyond its bytes");
        std::uint64_t state = hashes.data()[i] * kGolden + static_cast<std::uint64_t>(stop - start) + kGolden;
        for (; start < stop; start += 8) {
            std::uint64_t word = 0;
            for (std::int64_t byte = 0; byte < std::min<std::int64_t>(8, stop - start); ++byte)
                word |= static_cast<std::uint64_t>(data.data()[start + byte]) << (8 * byte);
            state = mix(state ^ word) * kGolden;
        }
        hashes.data()[i] = mix(state);
    }
}

// The fold of every row by its number: random by seed, and independent of how the table is read.
void draw_folds(const Vector<std::int64_t>& rows, std::uint64_t seed, std::uint64_t folds,
                const MutableVector<std::uint8_t>& drawn) {
    require(folds > 0 && drawn.shape(0) == rows.shape(0), "folds need one number for each row");
    nb::gil_scoped_release unlocked;
    for (std::size_t i = 0; i < rows.shape(0); ++i)
        drawn.data()[i] = static_cast<std::uint8_t>(
            mix(((static_cast<std::uint64_t>(rows.data()[i]) + 1) * kGolden) ^ seed) % folds);
}

}  // namespace rowmill
