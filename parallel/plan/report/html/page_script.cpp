// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/html/page_sections.h"

namespace llmtrain {

const MarkupLiteral page_script = R"js(
"use strict";
(() => {
  const tip = document.getElementById("tip");
  const read = (id) => { const text = document.getElementById(id); return text && JSON.parse(text.textContent); };
  const show = (event, text) => {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const top = event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 12 : event.clientY + 18;
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = Math.max(8, top) + "px";
  };
  const place = (svg, event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  const duration = (seconds) => seconds >= 1 ? seconds.toPrecision(4) + " s" : seconds >= 1e-3 ?
    (seconds * 1e3).toPrecision(4) + " ms" : (seconds * 1e6).toFixed(0) + " µs";
  const bytes = (mebibytes) => mebibytes >= 1000 ? (mebibytes / 1024).toPrecision(3) + " GiB" : mebibytes + " MiB";

  const timeline = read("timeline-data");
  if (timeline) {
    const svg = document.querySelector("svg.timeline");
    const scroller = svg.parentElement;
    const found = svg.querySelector(".found");
    const names = svg.querySelector(".names");
    const height = svg.viewBox.baseVal.height;
    const ticks = svg.querySelector(".ticks");
    const labels = svg.querySelector(".labels");
    const wires = [...svg.querySelectorAll(".links, .adapters")];
    const operations = ["Forward", "Backward", "SendActivation", "RecvActivation", "SendGradient", "RecvGradient",
      "GatherWeights", "FreeWeights", "ReduceGradients", "OptimizerStep"];
    // At 1 a unit of the drawing is a pixel, as wide as pages get: narrower windows have less room for times, not smaller texts.
    let zoom = 1;
    const whole_step = () => Math.min(1, Math.max(0.2, (scroller.clientWidth - timeline.gutter) / timeline.width));
    const position = (time) => {
      const piece = timeline.pieces.find((p) => p[1] >= time) || timeline.pieces[timeline.pieces.length - 1];
      return piece[2] + (piece[3] - piece[2]) * (time - piece[0]) / Math.max(1, piece[1] - piece[0]);
    };
    const time_at = (x) => {
      const piece = timeline.pieces.find((p) => x >= p[2] && p[3] >= x);
      return !piece || piece[4] ? -1 : piece[0] + (piece[1] - piece[0]) * (x - piece[2]) / (piece[3] - piece[2]);
    };
    const entry_at = (x, y) => {
      const time = time_at(x);
      const row = timeline.rows.find((r) => y >= r[1] && r[1] + timeline.row > y);
      if (time === -1 || !row) return null;
      const slack = 1.5 / zoom * (timeline.pieces[0][1] - timeline.pieces[0][0]) / timeline.pieces[0][3];
      let best = null, nearest = slack;
      for (let i = 0; row[2].length > i; i += 8) {
        const [top, size] = [row[1] + row[2][i + 6] - 1, row[2][i + 7] + 2];
        if (top > y || y > top + size) continue;
        const away = Math.max(row[2][i + 4] - time, time - row[2][i + 4] - row[2][i + 5], 0);
        if (nearest > away) [best, nearest] = [i, away];
      }
      return best === null ? null : { rank: row[0], top: row[1], values: row[2].slice(best, best + 8) };
    };
    const describe = (entry) => {
      const [operation, stage, micro, peer, start, length] = entry.values;
      const fields = [["stage", stage], ["micro", micro], ["peer", peer]].filter((f) => f[1] >= 0);
      const work = timeline.work, of = { 0: 0, 1: 1, 6: 2, 8: 3 }[operation];
      const way = operation >= 2 && 6 > operation ? work.transfer : of === undefined ? "" : (work.kinds[work.of[stage]] || [])[of];
      return [operations[operation], ...fields.map((f) => f.join(" "))].join(" ") + "\npipeline rank " + entry.rank + ", from " +
        duration(start * timeline.tick) + ", takes " + duration(length * timeline.tick) + (way ? "\n\n" + way : "");
    };
    // What the lane under the pointer carries there; its path has a level and where it ends, again and again.
    const wire_at = (x, y) => {
      const path = wires.find((lane) => y >= +lane.dataset.top && +lane.dataset.top + timeline.wire >= y);
      if (!path) return "";
      const steps = [...path.getAttribute("d").matchAll(/V([\d.]+)H([\d.]+)/g)];
      const step = steps.find((found) => +found[2] >= x);
      const share = step ? Math.round(100 - 100 * step[1] / timeline.wire) : 0;
      const name = path.getAttribute("class") === "links" ? "links to other ranks of the node" : "share of the node's network adapters";
      return name + ": busy for " + share + " % of the time";
    };
    svg.addEventListener("mousemove", (event) => {
      const point = place(svg, event);
      const x = (point.x - timeline.gutter) / zoom, entry = entry_at(x, point.y);
      show(event, entry ? describe(entry) : time_at(x) === -1 ? "" : wire_at(x, point.y));
      const box = entry ? { x: position(entry.values[4]), y: entry.top + entry.values[6], height: entry.values[7],
        width: position(entry.values[4] + entry.values[5]) - position(entry.values[4]) } : { width: 0, height: 0 };
      for (const key in box) found.setAttribute(key, box[key]);
    });
    svg.addEventListener("mouseleave", () => { show(null, ""); found.setAttribute("width", 0); found.setAttribute("height", 0); });
    // As TimeAxis::ticks() makes them for the whole step, of the width that the zoom gives it.
    const round_step = (least) => {
      const power = 10 ** Math.floor(Math.log10(least));
      return power * [1, 2, 5, 10].find((factor) => factor * power >= least);
    };
    const add_tick = (x, seconds, step) => {
      const [unit, name] = step >= 0.1 ? [1, " s"] : [1e-3, " ms"];
      const decimals = Math.min(6, Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9)));
      const text = document.createElementNS(svg.namespaceURI, "text");
      text.setAttribute("class", "tick");
      text.setAttribute("x", +x.toFixed(2));
      text.setAttribute("y", 13);
      text.textContent = (seconds / unit).toFixed(decimals) + name;
      ticks.append(text);
    };
    const draw_ticks = () => {
      ticks.textContent = "";
      for (const [start, end, left, right, cut] of timeline.pieces) {
        if (cut || start >= end || left >= right) continue;
        const [from, to, units] = [start * timeline.tick, end * timeline.tick, (right - left) * zoom];
        const step = round_step((to - from) / units * 100);
        for (let count = Math.ceil(from / step); to >= count * step; ++count) {
          const x = left * zoom + units * (count * step - from) / (to - from);
          if (timeline.width * zoom - 30 >= x) add_tick(x, count * step, step);
        }
      }
    };
    // Names the passes in sight that have room for it.
    const draw_labels = () => {
      labels.textContent = "";
      const [from, to] = [scroller.scrollLeft - timeline.gutter - 20, scroller.scrollLeft + scroller.clientWidth + 20];
      for (const row of timeline.rows) {
        for (let i = 0; row[2].length > i; i += 8) {
          const [operation, , micro, , start, length, top] = row[2].slice(i, i + 7);
          if (operation > 1) continue;
          const left = position(start) * zoom, width = position(start + length) * zoom - left, number = String(micro);
          if (timeline.digit * number.length + 1 > width || from > left + width || left > to) continue;
          const text = document.createElementNS(svg.namespaceURI, "text");
          text.setAttribute("class", operation === 1 ? "on-dark" : "on-light");
          text.setAttribute("x", +(left + width / 2).toFixed(2));
          text.setAttribute("y", row[1] + top + 13);
          text.textContent = number;
          labels.append(text);
        }
      }
    };
    let is_waiting = false;
    const keep_up = () => {
      names.setAttribute("transform", "translate(" + scroller.scrollLeft + " 0)");
      if (is_waiting) return;
      is_waiting = true;
      requestAnimationFrame(() => { is_waiting = false; draw_labels(); });
    };
    const set_zoom = (wanted, x) => {
      const before = zoom;
      zoom = Math.min(64, Math.max(whole_step(), wanted));
      const width = timeline.gutter + timeline.width * zoom;
      svg.setAttribute("viewBox", "0 0 " + width + " " + height);
      svg.style.width = svg.style.minWidth = width + "px";
      svg.querySelector(".stretch").setAttribute("transform", "scale(" + zoom + " 1)");
      draw_ticks();
      scroller.scrollLeft = (scroller.scrollLeft + x) * zoom / before - x;
      keep_up();
    };
    let fitting = 0;
    const fit = () => { if (zoom === fitting || fitting === 0) { set_zoom(0, 0); fitting = zoom; } };
    addEventListener("resize", fit);
    fit();
    scroller.addEventListener("scroll", keep_up);
    scroller.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      set_zoom(zoom * (event.deltaY > 0 ? 0.8 : 1.25), event.clientX - scroller.getBoundingClientRect().left);
    }, { passive: false });
    document.querySelector(".zoom").hidden = false;
    for (const button of document.querySelectorAll(".zoom button"))
      button.addEventListener("click", () => set_zoom(zoom * +button.dataset.zoom, scroller.clientWidth / 2));
    addEventListener("beforeprint", () => set_zoom(0, 0));
  }

  const memory = read("memory-data");
  if (memory) {
    const svg = document.querySelector("svg.memory");
    const cursor = svg.querySelector(".cursor");
    svg.addEventListener("mousemove", (event) => {
      const x = place(svg, event).x - memory.gutter;
      const column = x >= 0 && memory.width >= x ? memory.columns.filter((c) => x >= c[0]).pop() : null;
      cursor.style.display = column ? "inline" : "none";
      if (!column) return show(event, "");
      cursor.setAttribute("transform", "translate(" + x + " 0)");
      const parts = memory.names.map((name, i) => [name, column[i + 1]]).filter((part) => part[1] > 0).reverse();
      const sum = parts.reduce((total, part) => total + part[1], 0);
      show(event, [["all", sum], ...parts].map((part) => bytes(part[1]).padStart(9, "\u2007") + "  " + part[0]).join("\n"));
    });
    svg.addEventListener("mouseleave", () => { show(null, ""); cursor.style.display = "none"; });
  }
})();
)js";

}  // namespace llmtrain
