// Binds the native functions as `rowmill._native.core`. `core.pyi` documents them.
#include "native.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;
using namespace rowmill;

NB_MODULE(core, module) {
    nb::set_leak_warnings(false);  // whatever lives when the interpreter ends is not worth a message

    nb::class_<Lease>(module, "Lease")
        .def(nb::init<nb::object, nb::object>(), "memory"_a, "returned"_a)
        .def_prop_ro("__array_interface__", &Lease::interface);
    nb::class_<Columns>(module, "Columns")
        .def(nb::init<std::vector<Array>, const std::vector<std::size_t>&, const std::vector<std::size_t>&>(),
             "arrays"_a.noconvert(), "matrices"_a, "slots"_a)
        .def_prop_ro("rows", &Columns::rows);
    nb::class_<Destination>(module, "Destination")
        .def(nb::init<std::vector<std::vector<MutableArray>>, const std::vector<bool>&, std::size_t>(),
             "arrays"_a.noconvert(), "column_major"_a, "unit"_a);

    module.def("pack", &pack, "columns"_a, "first"_a, "matrices"_a.noconvert());
    module.def("pack_and_copy", &pack_and_copy, "columns"_a, "first"_a, "tile_rows"_a, "matrices"_a.noconvert(),
               "plan"_a.noconvert(), "places"_a.noconvert(), "destination"_a);
    module.def("scatter_columns", &scatter_columns, "columns"_a, "first"_a, "places"_a.noconvert(), "destination"_a);
    module.def("copy_rows", &copy_rows, "matrices"_a.noconvert(), "first"_a, "plan"_a.noconvert(),
               "places"_a.noconvert(), "destination"_a);
    module.def("gather_rows", &gather_rows, "matrices"_a.noconvert(), "rows"_a.noconvert(), "plan"_a.noconvert(),
               "places"_a.noconvert(), "destination"_a, "streaming"_a);
    module.def("transpose", &transpose, "matrix"_a.noconvert(), "columns"_a.noconvert());
    module.def("copy_lists", &copy_lists, "source"_a.noconvert(), "starts"_a.noconvert(), "places"_a.noconvert(),
               "offsets"_a.noconvert(), "values"_a.noconvert());

    module.def("shuffle", &shuffle, "items"_a.noconvert(), "key"_a);
    module.def("shuffle_segments", &shuffle_segments, "items"_a.noconvert(), "segment"_a, "key"_a);
    module.def("random_places", &random_places, "places"_a.noconvert(), "drawn"_a.noconvert(),
               "shuffled"_a.noconvert(), "bins"_a, "key"_a);
    module.def("feistel_rows", &feistel_rows, "rows"_a.noconvert(), "first"_a, "total"_a, "height"_a, "width"_a,
               "keys"_a.noconvert());

    module.def("add_powers", &add_powers, "values"_a.noconvert(), "low"_a.noconvert(), "high"_a.noconvert());
    module.def("count_into", &count_into, "values"_a.noconvert(), "start"_a, "keys"_a.noconvert(),
               "counts"_a.noconvert(), "used"_a, "room"_a);
    module.def("put_counts", &put_counts, "new_keys"_a.noconvert(), "new_counts"_a.noconvert(), "keys"_a.noconvert(),
               "counts"_a.noconvert());
    module.def("build_narrow_index", &build_narrow_index, "keys"_a.noconvert(), "table"_a.noconvert());
    module.def("find_narrow", &find_narrow, "values"_a.noconvert(), "table"_a.noconvert(), "places"_a.noconvert());
    module.def("build_wide_index", &build_wide_index, "keys"_a.noconvert(), "table"_a.noconvert());
    module.def("find_wide", &find_wide, "values"_a.noconvert(), "table"_a.noconvert(), "places"_a.noconvert());
    module.def("hash_numbers", &hash_numbers, "values"_a.noconvert(), "hashes"_a.noconvert());
    module.def("hash_bytes", &hash_bytes, "offsets"_a.noconvert(), "data"_a.noconvert(), "hashes"_a.noconvert());
    module.def("draw_folds", &draw_folds, "rows"_a.noconvert(), "seed"_a, "folds"_a, "drawn"_a.noconvert());
    module.def(
        "dot_rows",
        [](const Vector<std::int64_t>& left, const Vector<std::int64_t>& right, const Vector<std::int64_t>& a_starts,
           const Vector<std::int64_t>& a_columns, const Vector<double>& a_values, const Vector<std::int64_t>& b_starts,
           const Vector<std::int64_t>& b_columns, const Vector<double>& b_values, const MutableVector<double>& products) {
            dot_rows(left, right, {a_starts, a_columns, a_values}, {b_starts, b_columns, b_values}, products);
        },
        "left"_a.noconvert(), "right"_a.noconvert(), "a_starts"_a.noconvert(), "a_columns"_a.noconvert(),
        "a_values"_a.noconvert(), "b_starts"_a.noconvert(), "b_columns"_a.noconvert(), "b_values"_a.noconvert(),
        "products"_a.noconvert());
}
