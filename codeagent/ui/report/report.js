"use strict";
// Shows the timeline. Text from the session only ever becomes the text of a node, never markup.
(() => {
  const PAGE = 200; // rows added at a time: ten thousand at once would hold up the page
  const rows = JSON.parse(document.getElementById("rows").textContent);
  const list = document.getElementById("list");
  const matches = document.getElementById("matches");
  const search = document.getElementById("search");
  const buttons = [...document.querySelectorAll("[data-filter]")];
  const [KIND, TITLE, DETAIL, TURN, ROUND, AT, TOOK, STATUS, DECIDED, FAILED, BODIES] = Array(11).keys();
  const end = rows.reduce((latest, row) => Math.max(latest, row[AT] + row[TOOK]), 1);
  let filter = "all";
  let shown = [];
  let drawn = 0;

  const element = (tag, className, text) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const seconds = (ms) => {
    if (ms < 9950) return (ms / 1000).toFixed(ms < 100 ? 3 : 2) + " s";
    if (ms < 60000) return (ms / 1000).toFixed(1) + " s";
    const whole = Math.round(ms / 1000);
    return Math.floor(whole / 60) + " min " + String(whole % 60).padStart(2, "0") + " s";
  };

  const clock = (ms) => {
    if (end < 600000) return (ms / 1000).toFixed(1) + " s";
    const whole = Math.floor(ms / 1000);
    return Math.floor(whole / 60) + ":" + String(whole % 60).padStart(2, "0");
  };

  // The texts of a long session are large: each piece is read when something in it is first asked for.
  const sources = [...document.querySelectorAll("script.texts")];
  const pieces = [];
  const textOf = ([, piece, place]) => (pieces[piece] ??= JSON.parse(sources[piece].textContent))[place];

  const bodies = (row) => {
    const box = element("div", "bodies");
    for (const body of row[BODIES]) {
      box.append(element("h4", "", body[0]), element("pre", "", textOf(body)));
    }
    return box;
  };

  const line = (row) => {
    const expands = row[BODIES].length > 0;
    const outer = element(expands ? "details" : "div", expands ? "row" : "row flat");
    if (row[FAILED]) outer.classList.add("failed");
    const inner = expands ? element("summary") : outer;
    const lane = element("span", "lane");
    if (row[TOOK]) {
      // A call's record is written when it starts, a response's when it is over.
      const start = row[KIND] === "response" ? row[AT] - row[TOOK] : row[AT];
      const bar = element("i");
      bar.style.left = (100 * start) / end + "%";
      bar.style.width = (100 * row[TOOK]) / end + "%";
      lane.append(bar);
      lane.title = seconds(row[TOOK]);
    }
    const status = [row[STATUS], row[TOOK] ? seconds(row[TOOK]) : ""].filter(Boolean).join(" · ");
    const at = element("span", "at", clock(row[AT]));
    at.title = "turn " + row[TURN] + ", round " + row[ROUND];
    const title = element("span", "title", row[TITLE]);
    if (row[DECIDED]) title.append(element("small", "", row[DECIDED]));
    inner.append(at, title, element("span", "detail", row[DETAIL]), lane,
      element("span", "status", status));
    if (expands) {
      outer.append(inner);
      outer.addEventListener("toggle", () => outer.append(bodies(row)), { once: true });
    }
    return outer;
  };

  const more = element("button", "", "");
  more.type = "button";
  const draw = () => {
    const part = document.createDocumentFragment();
    for (const row of shown.slice(drawn, drawn + PAGE)) part.append(line(row));
    drawn = Math.min(drawn + PAGE, shown.length);
    list.append(part);
    more.textContent = "Show more (" + (shown.length - drawn).toLocaleString("en") + " left)";
    more.hidden = drawn >= shown.length;
  };

  const fits = (row) => filter === "all" || (filter === "problem" ? row[FAILED] : row[KIND] === filter);
  const says = (row, words) => [row[TITLE], row[DETAIL], row[STATUS], row[DECIDED], ...row[BODIES].map(textOf)]
    .some((text) => text.toLowerCase().includes(words));

  const refresh = () => {
    const words = search.value.trim().toLowerCase();
    shown = rows.filter((row) => fits(row) && (!words || says(row, words)));
    list.replaceChildren();
    drawn = 0;
    matches.textContent = shown.length.toLocaleString("en") + " of " + rows.length.toLocaleString("en") + " entries";
    draw();
  };

  for (const button of buttons) {
    button.addEventListener("click", () => {
      filter = button.dataset.filter;
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      refresh();
    });
  }
  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(refresh, 120);
  });
  more.addEventListener("click", draw);
  document.getElementById("timeline").querySelector(".tools").parentElement.append(more);
  new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && drawn < shown.length && draw(), {
    rootMargin: "400px",
  }).observe(more);

  const open = () => {
    const target = location.hash.startsWith("#cite-") && document.getElementById(location.hash.slice(1));
    if (!target) return;
    target.open = true;
    target.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", open);
  document.addEventListener("click", (event) => event.target.closest("a.cite") && setTimeout(open));
  refresh();
  open();
  document.documentElement.dataset.ready = "yes";
})();
