// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/html/page_sections.h"

namespace llmtrain {

const std::string_view page_style = R"css(
:root { color-scheme: light dark;
  --page: #ffffff; --panel: #f6f7f9; --line: #dfe3e8; --text: #1c2127; --quiet: #5f6b7a; --good: #1a7f47; --bad: #c62f3b;
  --gather: #7b5cd6; --reduce: #d6336c; --send: #8a94a3; --receive: #b9c1cc; --step: #30363d; --hatch: #c9d0d8;
  --weights: #4e79a7; --master: #76a5c4; --optimizer: #a7c4dd; --gradients: #f28e2b; --activations: #59a14f;
  --buffers: #edc948; --communication: #e15759; --framework: #a0a7b0;
  --f0: #a8c8f0; --b0: #3b78c2; --f1: #f7cb9b; --b1: #d97f1e; --f2: #aadcb0; --b2: #37904a; --f3: #d3bfee; --b3: #8256bd;
  --f4: #f5b5bc; --b4: #cb4759; --f5: #9fdcd9; --b5: #258f8b; --f6: #f0df94; --b6: #a88a12; --f7: #dcc5b4; --b7: #8b684b; }
@media (prefers-color-scheme: dark) { :root {
  --page: #14171b; --panel: #1d2127; --line: #323942; --text: #e6e9ed; --quiet: #98a3b1; --good: #4cc380; --bad: #ff6b74;
  --gather: #a48bff; --reduce: #ff6f9f; --send: #8a94a3; --receive: #5d6774; --step: #d5dae0; --hatch: #3b434d;
  --weights: #5b8dc4; --master: #83b3d6; --optimizer: #b6d0e6; --framework: #7c858f; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 28px 32px 48px; max-width: 1240px; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
header { display: flex; gap: 24px; justify-content: space-between; align-items: flex-start; flex-wrap: wrap; }
h1 { margin: 0; font-size: 26px; line-height: 1.25; overflow-wrap: anywhere; }
h2 { margin: 0 0 4px; font-size: 17px; }
h3 { margin: 0; font-size: 13px; font-weight: 600; color: var(--quiet); }
p { margin: 0; } header p, .note { color: var(--quiet); } .note { margin: 2px 0 10px; font-size: 14px; }
section { margin-top: 34px; }
code, pre { font: 13px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; }
header .verdict { border: 1.5px solid var(--line); border-radius: 20px; padding: 6px 16px; font-weight: 600;
  color: var(--text); white-space: nowrap; }
header .verdict.good { color: var(--good); border-color: var(--good); }
header .verdict.bad { color: var(--bad); border-color: var(--bad); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(165px, 1fr)); gap: 12px; margin-top: 20px; }
.card { background: var(--panel); border-radius: 10px; padding: 12px 16px; }
.card p { font-size: 13px; color: var(--quiet); }
.card .value { font-size: 24px; line-height: 1.35; font-weight: 650; color: var(--text); font-variant-numeric: tabular-nums; }
.split { display: flex; height: 26px; border-radius: 6px; overflow: hidden; gap: 1px; }
.split i { display: block; min-width: 1px; }
.shares { display: grid; grid-template-columns: repeat(auto-fill, minmax(330px, 1fr)); gap: 2px 36px; margin-top: 12px; }
.shares div { display: grid; grid-template-columns: 20px 1fr 80px 70px; align-items: center; }
.shares b, .shares b + span { text-align: right; font-variant-numeric: tabular-nums; font-weight: 600; }
.shares b + span { font-weight: 400; color: var(--quiet); }
.shares i, .key i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; }
.p0 { background: #3f9a57; } .p1 { background: #9dc76a; } .p2 { background: #edb340; } .p3 { background: #b4bcc6; }
.p4 { background: #e0645c; } .p5 { background: #7a68c4; } .p6 { background: #7d6b5d; }
.warnings { border-left: 4px solid #e0a52e; padding: 2px 0 2px 16px; } .warnings ul { margin: 4px 0 0; padding-left: 18px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0 0 8px; font-size: 13px; color: var(--quiet); }
.key { white-space: nowrap; } .key i { margin: 0 5px 0 0; vertical-align: -1px; } .key i + i { margin-left: -3px; }
.scroll { overflow-x: auto; }
svg { display: block; width: 100%; min-width: 620px; height: auto; } figure svg { min-width: 0; border-radius: 4px; }
svg text { font-size: 11px; fill: var(--quiet); font-variant-numeric: tabular-nums; }
svg .tick { text-anchor: start; } svg .name { text-anchor: end; } svg .row { fill: var(--panel); }
svg .page { fill: var(--page); } svg .cut { fill: url(#hatch); }
svg .on-light, svg .on-dark { text-anchor: middle; font-size: 9.5px; fill: #1c2127; pointer-events: none; }
svg .on-dark { fill: #ffffff; } svg .hidden { display: none; }
svg .found { fill: none; stroke: var(--text); stroke-width: 1.6; vector-effect: non-scaling-stroke; pointer-events: none; }
svg .grid { stroke: var(--line); stroke-width: 1; fill: none; }
svg .limit { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 6 4; fill: none; }
svg .limit-name { fill: var(--bad); text-anchor: end; font-weight: 600;
  paint-order: stroke; stroke: var(--page); stroke-width: 3px; stroke-linejoin: round; }
svg .cursor { stroke: var(--text); stroke-width: 1; display: none; }
.f0 { fill: var(--f0); background: var(--f0); } .b0 { fill: var(--b0); background: var(--b0); }
.f1 { fill: var(--f1); background: var(--f1); } .b1 { fill: var(--b1); background: var(--b1); }
.f2 { fill: var(--f2); background: var(--f2); } .b2 { fill: var(--b2); background: var(--b2); }
.f3 { fill: var(--f3); background: var(--f3); } .b3 { fill: var(--b3); background: var(--b3); }
.f4 { fill: var(--f4); background: var(--f4); } .b4 { fill: var(--b4); background: var(--b4); }
.f5 { fill: var(--f5); background: var(--f5); } .b5 { fill: var(--b5); background: var(--b5); }
.f6 { fill: var(--f6); background: var(--f6); } .b6 { fill: var(--b6); background: var(--b6); }
.f7 { fill: var(--f7); background: var(--f7); } .b7 { fill: var(--b7); background: var(--b7); }
.gather { fill: var(--gather); background: var(--gather); } .reduce { fill: var(--reduce); background: var(--reduce); }
.send { fill: var(--send); background: var(--send); } .receive { fill: var(--receive); background: var(--receive); }
.step { fill: var(--step); background: var(--step); }
.m-weights { fill: var(--weights); background: var(--weights); }
.m-master_weights { fill: var(--master); background: var(--master); }
.m-optimizer { fill: var(--optimizer); background: var(--optimizer); }
.m-gradients { fill: var(--gradients); background: var(--gradients); }
.m-activations { fill: var(--activations); background: var(--activations); }
.m-buffers { fill: var(--buffers); background: var(--buffers); }
.m-communication { fill: var(--communication); background: var(--communication); }
.m-framework { fill: var(--framework); background: var(--framework); }
.small-charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(130px, 1fr)); gap: 12px; margin-top: 14px; }
figure { margin: 0; } figcaption { font-size: 12px; color: var(--quiet); font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
th { color: var(--quiet); font-weight: 600; vertical-align: bottom; }
th, td { padding: 5px 8px; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
thead th { white-space: normal; } th:first-child, td:first-child { padding-left: 0; }
.words-2 :is(th, td):nth-child(-n+2), .words-3 :is(th, td):nth-child(-n+3), .words-0 :is(th, td):last-child { text-align: left; }
.reason { display: inline-block; max-width: 300px; white-space: normal; }
.meter { display: block; height: 4px; min-width: 70px; border-radius: 2px; background: var(--line); overflow: hidden; }
.meter i { display: block; height: 100%; background: var(--good); } .meter.over i { background: var(--bad); }
.zoom { float: right; } .zoom[hidden] { display: none; }
.zoom button { font: inherit; font-size: 13px; font-weight: 500; color: var(--text); background: var(--panel);
  border: 1px solid var(--line); border-radius: 6px; padding: 2px 10px; margin-left: 6px; cursor: pointer; }
details summary { cursor: pointer; color: var(--quiet); } pre { overflow-x: auto; background: var(--panel); padding: 14px; border-radius: 8px; }
#tip { position: fixed; z-index: 2; pointer-events: none; background: var(--text); color: var(--page); border-radius: 6px;
  padding: 6px 10px; font-size: 13px; line-height: 1.4; white-space: pre; font-variant-numeric: tabular-nums; }
#tip[hidden] { display: none; } footer { margin-top: 36px; color: var(--quiet); font-size: 13px; }
@page { size: A4 landscape; margin: 12mm; }
@media print { :root { --page: #ffffff; --text: #1c2127; --quiet: #5f6b7a; --panel: #f2f4f6; --line: #d5dae0; }
  body { max-width: none; padding: 0; font-size: 12px; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .cards { grid-template-columns: repeat(6, 1fr); } .card { padding: 8px 10px; } .card .value { font-size: 19px; }
  .zoom { display: none; } section { break-inside: avoid; } .scroll { overflow: visible; }
  svg, table { min-width: 0; } th, td { padding: 3px 6px; font-size: 10.5px; } }
)css";

const std::string_view page_script = R"js(
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
    tip.style.left = left + "px";
    tip.style.top = top + "px";
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
    const texts = [...svg.querySelectorAll(".plot > text")].map((node) => [node, +node.getAttribute("x")]);
    const operations = ["Forward", "Backward", "SendActivation", "RecvActivation", "SendGradient", "RecvGradient",
      "GatherWeights", "FreeWeights", "ReduceGradients", "OptimizerStep"];
    let zoom = 1;
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
      return [operations[operation], ...fields.map((f) => f.join(" "))].join(" ") + "\npipeline rank " + entry.rank + ", from " +
        duration(start * timeline.tick) + ", takes " + duration(length * timeline.tick);
    };
    svg.addEventListener("mousemove", (event) => {
      const point = place(svg, event);
      const entry = entry_at((point.x - timeline.gutter) / zoom, point.y);
      show(event, entry && describe(entry));
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
    const keep_names = () => {
      const scale = svg.viewBox.baseVal.width / svg.clientWidth;
      names.setAttribute("transform", "translate(" + scroller.scrollLeft * scale + " 0)");
    };
    const set_zoom = (wanted, x) => {
      const before = zoom;
      zoom = Math.min(64, Math.max(1, wanted));
      const width = timeline.gutter + timeline.width * zoom;
      svg.setAttribute("viewBox", "0 0 " + width + " " + height);
      svg.style.width = 100 * width / (timeline.gutter + timeline.width) + "%";
      svg.querySelector(".stretch").setAttribute("transform", "scale(" + zoom + " 1)");
      for (const [node, at] of texts) {
        node.setAttribute("x", at * zoom);
        if (node.dataset.w) node.classList.toggle("hidden", 5.5 * node.textContent.length + 1 > node.dataset.w * zoom);
      }
      draw_ticks();
      scroller.scrollLeft = (scroller.scrollLeft + x) * zoom / before - x;
      keep_names();
    };
    scroller.addEventListener("scroll", keep_names);
    scroller.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      set_zoom(zoom * (event.deltaY > 0 ? 0.8 : 1.25), event.clientX - scroller.getBoundingClientRect().left);
    }, { passive: false });
    document.querySelector(".zoom").hidden = false;
    for (const button of document.querySelectorAll(".zoom button"))
      button.addEventListener("click", () => set_zoom(zoom * +button.dataset.zoom, scroller.clientWidth / 2));
    addEventListener("beforeprint", () => set_zoom(1, 0));
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
