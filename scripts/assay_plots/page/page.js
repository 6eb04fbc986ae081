"use strict";
// The tables sort, filter and unfold; charts replace their pictures when they become visible.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const element = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties || {});
    made.append(...children);
    return made;
  };

  // ---- dark and light
  const root = document.documentElement;
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const themeButton = document.getElementById("theme");
  const nameTheme = () => (themeButton.textContent = isDark() ? "Light" : "Dark");
  themeButton.hidden = false;
  nameTheme();

  // ---- charts
  const themes = read("themes");
  const drawn = new Map();
  const draw = (place) => {
    const chart = place.dataset.chart;
    const spec = { ...read("spec-" + chart), width: "container", config: isDark() ? themes.dark : themes.light };
    spec.autosize = { type: "fit-x", contains: "padding" };
    const still = place.querySelector("img");
    const stage = element("div");
    stage.style.width = "100%";
    const height = place.offsetHeight;
    if (height) place.style.minHeight = height + "px";
    place.append(stage);
    const options = { ast: true, renderer: "svg", actions: { export: true, source: false, compiled: false, editor: false } };
    drawn.set(chart, null);
    return window.vegaEmbed(stage, spec, options).then(
      (result) => {
        if (drawn.get(chart)) drawn.get(chart).finalize();
        drawn.set(chart, result.view);
        if (still) still.remove();
        for (const old of [...place.children]) if (old !== stage) old.remove();
        place.style.minHeight = "";
        place.dataset.drawn = "yes";
      },
      (error) => {
        stage.remove();
        place.dataset.drawn = "failed";
        place.append(element("p", { className: "note", textContent: "This chart could not be made live: " + error.message }));
      }
    );
  };
  const places = [...document.querySelectorAll("[data-chart]")];
  const seen = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting || drawn.has(entry.target.dataset.chart)) continue;
        draw(entry.target);
      }
    },
    { rootMargin: "300px" }
  );
  if (window.vegaEmbed) places.forEach((place) => seen.observe(place));
  const redraw = () => places.filter((place) => drawn.has(place.dataset.chart)).forEach(draw);
  themeButton.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
    redraw();
  });
  prefersDark.addEventListener("change", () => {
    nameTheme();
    redraw();
  });

  // ---- the table of cells
  const table = document.getElementById("cells-table");
  if (!table) return;
  const data = read("cells-data");
  const columns = data.columns;
  const statusColumn = columns.findIndex((column) => column.name === "status");
  const PAGE = 200;
  const shown = (entry) => (typeof entry === "string" ? entry : entry[0]);
  let limit = PAGE;
  let order = null; // {column, ascending}
  let rows = data.rows.map((row, i) => ({ row, i, text: row.map(shown).join(" ").toLowerCase() + " " + data.details[i].id.toLowerCase() }));

  const tools = document.getElementById("cells-tools");
  const search = element("input", { type: "search", placeholder: "any words", id: "cells-search" });
  tools.append(element("label", {}, "Filter", search));
  const choices = [];
  columns.forEach((column, i) => {
    if (!column.choice) return;
    const values = [...new Set(data.rows.map((row) => shown(row[i])))].sort();
    if (values.length < 2 || values.length > 300) return;
    const select = element("select", {}, element("option", { value: "", textContent: "all" }));
    select.dataset.column = column.name;
    values.forEach((value) => select.append(element("option", { value: "=" + value, textContent: value || "(none)" })));
    select.addEventListener("change", () => { limit = PAGE; fill(); });
    choices.push([i, select]);
    tools.append(element("label", {}, column.name, select));
  });
  const count = element("span", { className: "note", id: "cells-count" });
  count.setAttribute("role", "status");
  const more = document.getElementById("cells-more");

  const details = (i) => {
    const about = data.details[i];
    const list = element("dl");
    const add = (name, ...value) => list.append(element("dt", { textContent: name }), element("dd", {}, ...value));
    if (about.reproduce) {
      const copy = element("button", { type: "button", textContent: "Copy" });
      copy.addEventListener("click", () => {
        const done = () => (copy.textContent = "Copied");
        if (navigator.clipboard && window.isSecureContext) navigator.clipboard.writeText(about.reproduce).then(done, () => {});
        else {
          const range = document.createRange();
          range.selectNodeContents(list.querySelector("pre"));
          const selection = window.getSelection();
          selection.removeAllRanges();
          selection.addRange(range);
          if (document.execCommand("copy")) done();
        }
      });
      add("measure it again", element("pre", { textContent: about.reproduce }), copy);
    }
    for (const name of ["reason", "equivalence", "report", "libraries", "id"]) if (about[name]) add(name, about[name]);
    if (about.log) add("end of its log", element("pre", { textContent: about.log }));
    if (about.metrics.length) {
      const items = about.metrics.map(([name, text]) => element("li", {}, element("span", { textContent: name + " " }), text));
      add("metrics", element("ul", { className: "metrics" }, ...items));
    }
    const cell = element("td", { className: "wide", colSpan: columns.length + 1 }, list);
    return element("tr", { className: "details" }, cell);
  };

  const line = ({ row, i }) => {
    const open = element("button", { type: "button", className: "open", textContent: "+" });
    open.setAttribute("aria-expanded", "false");
    open.setAttribute("aria-label", "Details and the command that measures it again");
    const status = shown(row[statusColumn]);
    const made = element("tr", {}, element("td", {}, open));
    made.className = status === "ok" ? "" : status.startsWith("wrong") ? "wrong" : status.startsWith("ok") || status.startsWith("un") ? "no-rank" : "broken";
    row.forEach((entry, j) => made.append(element("td", { className: j === statusColumn ? "status" : columns[j].number ? "number" : "", textContent: shown(entry) })));
    open.addEventListener("click", () => {
      const isOpen = open.getAttribute("aria-expanded") === "true";
      if (isOpen) made.nextSibling.remove();
      else made.after(details(i));
      open.setAttribute("aria-expanded", String(!isOpen));
      open.textContent = isOpen ? "+" : "–";
    });
    return made;
  };

  const key = (entry) => (typeof entry === "string" ? entry : entry[1]);
  const sorted = (list) => {
    if (!order) return list;
    const { column, ascending } = order;
    const sign = ascending ? 1 : -1;
    return [...list].sort((a, b) => {
      const x = key(a.row[column]), y = key(b.row[column]);
      const noX = x === null || x === "", noY = y === null || y === "";
      if (noX || noY) return noX - noY || a.i - b.i; // rows without a value come last in both directions
      const difference = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
      return sign * difference || a.i - b.i;
    });
  };

  function fill() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = rows.filter(
      (entry) =>
        words.every((word) => entry.text.includes(word)) &&
        choices.every(([i, select]) => !select.value || "=" + shown(entry.row[i]) === select.value)
    );
    const list = sorted(kept);
    table.tBodies[0].replaceChildren(...list.slice(0, limit).map(line));
    count.textContent = kept.length === rows.length ? `${rows.length} rows` : `${kept.length} of ${rows.length} rows`;
    more.hidden = list.length <= limit;
    more.textContent = `Show ${Math.min(PAGE, list.length - limit)} more`;
  }
  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { limit = PAGE; fill(); }, 120);
  });
  more.addEventListener("click", () => { limit += PAGE; fill(); });
  tools.append(count);

  const heads = [...table.tHead.rows[0].cells].slice(1); // the first is above the unfolding buttons
  heads.forEach((head, column) => {
    const button = element("button", { type: "button", textContent: head.textContent });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const ascending = !(order && order.column === column && order.ascending);
      order = { column, ascending };
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      fill();
    });
  });
  fill();
})();
