// Tables with class "sortable" are put in order by a click on a heading: by number where cells have one, else by text.
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.querySelectorAll("thead th")];
  headings.forEach((heading, place) => {
    heading.querySelector("button").addEventListener("click", () => {
      const numeric = heading.classList.contains("number");
      const before = heading.getAttribute("aria-sort");
      const first = numeric ? "descending" : "ascending";
      const other = numeric ? "ascending" : "descending";
      const order = before === first ? other : first;
      headings.forEach((each) => each.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const key = (row) => row.cells[place].dataset.value ?? row.cells[place].textContent;
      const body = table.tBodies[0];
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (!numeric) return sign * x.localeCompare(y, undefined, { numeric: true });
        if (x === "" || y === "") return (x === "") - (y === ""); // what is not known stands last
        return sign * (Number(x) - Number(y));
      });
      body.append(...rows);
    });
  });
}
