// Plots, live figures, topic tails and keyboard shortcuts. Pages work without this script.
"use strict";

// -- theme

document.querySelector("[data-theme-toggle]").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("ruslo-theme", root.dataset.theme);
  plots.forEach((plot) => plot.draw());
});

// -- keyboard shortcuts: / focuses the search, g and a letter opens a page

let lastKey = "";
const PAGES = { o: "/", t: "/topics", g: "/groups", b: "/brokers", x: "/transactions", p: "/pipelines", s: "/security" };
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, textarea, select")) return;
  if (event.key === "/") {
    const search = document.querySelector('[data-hotkey="/"]');
    if (search) {
      event.preventDefault();
      search.focus();
    }
  } else if (lastKey === "g" && PAGES[event.key]) {
    location.href = PAGES[event.key];
  }
  lastKey = event.key;
});

// A narrow screen cannot show all page names: scroll the current one into view.
document.querySelector(".top nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// -- one event stream per URL, shared by its listeners

const streams = new Map();

function listen(url, name, handle) {
  if (!streams.has(url)) streams.set(url, new EventSource(url));
  streams.get(url).addEventListener(name, (event) => handle(JSON.parse(event.data)));
}

addEventListener("pagehide", () => streams.forEach((stream) => stream.close()));
addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

document.querySelectorAll("[data-live]").forEach((element) => {
  listen(element.dataset.live, "figures", (figures) => {
    for (const [id, text] of Object.entries(figures)) {
      const target = document.getElementById(id);
      if (target) target.textContent = text;
    }
  });
});

// -- plots

const plots = [];
const SAMPLES_MAX = 300;
const SPAN_MIN_S = 20; // a single sample has no width
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 180, 300, 600, 900, 1800, 3600]; // narrow plots need a tick, too

function span(first, last) {
  const end = last ?? Date.now() / 1000;
  return [Math.min(first ?? end, end - SPAN_MIN_S), end];
}

function short(value, unit) {
  if (value == null) return "";
  if (unit === "B/s") {
    const names = ["B", "KiB", "MiB", "GiB"];
    let at = 0;
    while (value >= 1024 && at < names.length - 1) {
      value /= 1024;
      at += 1;
    }
    return `${+value.toFixed(value < 10 ? 1 : 0)} ${names[at]}/s`;
  }
  if (value >= 1e6) return `${+(value / 1e6).toFixed(1)}M${unit}`;
  if (value >= 1e4) return `${+(value / 1e3).toFixed(1)}k${unit}`;
  return `${+value.toFixed(value < 10 ? 2 : 0)}${unit}`;
}

class LivePlot {
  constructor(element) {
    this.element = element;
    this.unit = element.dataset.unit;
    this.column = Number(element.dataset.column);
    this.data = [[], []];
    this.plot = null;
    this.draw();
    new ResizeObserver(() => this.plot.setSize(this.size())).observe(element);
    listen(element.dataset.plot, "samples", (samples) => this.add(samples));
  }

  size() {
    return { width: Math.max(200, this.element.clientWidth), height: 150 };
  }

  draw() {
    const probe = this.element.appendChild(document.createElement("i"));
    const colour = (name) => {
      probe.style.color = `var(${name})`;
      return getComputedStyle(probe).color;  // the colour of the theme in use
    };
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const steps = this.unit === "B/s" ? { incrs: Array.from({ length: 40 }, (_, at) => 2 ** at) } : {};
    const options = {
      ...this.size(),
      cursor: { points: { size: 6 }, drag: { x: false, y: false } },
      legend: { show: false },
      padding: [10, 26, 0, 0],
      scales: { x: { range: (self, first, last) => span(first, last) }, y: { range: (self, low, high) => [0, Math.max(high * 1.15, 1)] } },
      axes: [
        { ...axis, space: 64, incrs: STEPS_S, values: [[1, "{HH}:{mm}:{ss}"]], size: 28, font: "11px system-ui" },
        { ...axis, space: 34, size: 62, font: "11px system-ui", values: (self, ticks) => ticks.map((tick) => short(tick, this.unit)), ...steps },
      ],
      series: [
        {},
        { stroke: colour("--plot"), fill: colour("--plot-fill"), width: 1.6, points: { show: false }, spanGaps: true },
      ],
    };
    probe.remove();
    if (this.plot) this.plot.destroy();
    this.plot = new uPlot(options, this.data, this.element);
  }

  add(samples) {
    const [times, values] = this.data;
    for (const sample of samples) {
      if (times.length && sample[0] <= times[times.length - 1]) continue;
      times.push(sample[0]);
      values.push(sample[this.column]);
    }
    times.splice(0, times.length - SAMPLES_MAX);
    values.splice(0, values.length - SAMPLES_MAX);
    this.element.dataset.points = times.length;
    this.plot.setData(this.data);
  }
}

if (window.uPlot) {
  document.querySelectorAll("[data-plot]").forEach((element) => plots.push(new LivePlot(element)));
}

// -- htmx: refreshed parts of a page are not replaced while the user works in them

document.addEventListener("htmx:configRequest", (event) => {
  event.detail.headers["X-Form-Token"] = document.querySelector('meta[name="form-token"]').content;
});

function isInUse(part) {
  const selection = getSelection();
  const selected = !selection.isCollapsed && part.contains(selection.anchorNode);
  return document.hidden || selected || part.contains(document.activeElement) || part.querySelector("details[open]");
}

// Check before the request and again before the swap.
for (const moment of ["htmx:beforeRequest", "htmx:beforeSwap"]) {
  document.addEventListener(moment, (event) => {
    const { elt, target } = event.detail.requestConfig;
    if (elt === target && isInUse(target)) event.preventDefault();
  });
}

// The session has ended: the reloaded page is the login page, which says why.
document.addEventListener("htmx:responseError", (event) => {
  if (event.detail.xhr.status === 401) location.reload();
});

document.addEventListener("htmx:afterSwap", (event) => {
  const heading = document.querySelector("#preview h2");
  if (heading && event.detail.target.id === "preview") heading.focus();
});

// -- topic tail

const TAIL_ROWS = 500;
const tail = document.querySelector("[data-tail]");
if (tail) {
  tail.hidden = false;
  let stream = null;
  let seen = 0;
  let skipped = 0;
  const state = document.getElementById("tail-state");
  const records = document.getElementById("records");
  const noun = tail.dataset.noun || "records";

  const stop = () => {
    if (stream) stream.close();
    stream = null;
    tail.textContent = "Follow live";
    tail.setAttribute("aria-pressed", "false");
  };

  const showState = () => {
    const left = skipped ? `, ${skipped.toLocaleString()} skipped` : "";
    state.textContent = `Following: ${seen.toLocaleString()} ${noun}${left}`;
  };

  tail.addEventListener("click", () => {
    if (stream) {
      stop();
      state.textContent = `Stopped after ${seen.toLocaleString()} ${noun}`;
      return;
    }
    seen = skipped = 0;
    stream = new EventSource(tail.dataset.tail);
    tail.textContent = "Stop";
    tail.setAttribute("aria-pressed", "true");
    showState();
    stream.addEventListener("rows", (event) => {
      const arrived = JSON.parse(event.data);
      seen += arrived.count;
      skipped += arrived.skipped;
      records.insertAdjacentHTML("afterbegin", arrived.html);
      while (records.rows.length > TAIL_ROWS) records.lastElementChild.remove();
      const nothing = document.getElementById("no-records");
      if (nothing) nothing.remove();
      showState();
    });
    stream.addEventListener("problem", (event) => {
      stop();
      state.textContent = JSON.parse(event.data);
    });
  });
  addEventListener("pagehide", stop);
}
