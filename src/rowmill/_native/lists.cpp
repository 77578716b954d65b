// Copies the lists of a column to where each row's values begin.
#include "native.hpp"

#include <cstring>

namespace rowmill {

void copy_lists(const Array& source, const Vector<std::int64_t>& starts, const Vector<std::uint32_t>& places,
                const Vector<std::int64_t>& offsets, const MutableArray& values) {
    require(source.ndim() == 1 && values.ndim() == 1 && contiguous_from(source, 0) && contiguous_from(values, 0),
            "values that are not contiguous");
    const Kind kind = kind_of(source.dtype());
    require(kind == kind_of(values.dtype()), "dtypes that differ");
    require(starts.shape(0) == places.shape(0) + 1, "lists need one start more than there are rows");
    const auto item = static_cast<std::int64_t>(item_bytes(kind));
    const auto length = static_cast<std::int64_t>(source.shape(0)), room = static_cast<std::int64_t>(values.shape(0));
    const char* from = static_cast<const char*>(source.data());
    char* to = static_cast<char*>(values.data());
    nb::gil_scoped_release unlocked;
    for (std::size_t row = 0; row < places.shape(0); ++row) {
        const std::int64_t begin = starts.data()[row], end = starts.data()[row + 1];
        require(places.data()[row] < offsets.shape(0), "a place beyond the offsets");
        const std::int64_t target = offsets.data()[places.data()[row]];
        require(0 <= begin && begin <= end && end <= length, "a list beyond its values");
        require(0 <= target && end - begin <= room - target, "a list beyond its room");
        if (begin < end)
            std::memcpy(to + target * item, from + begin * item, static_cast<std::size_t>((end - begin) * item));
    }
}

}  // namespace rowmill
