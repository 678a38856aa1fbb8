// SPDX-License-Identifier: Apache-2.0
#include "core/page/line_chart.h"

namespace llmtrain {

// The points are those of the drawn paths, so the page holds them once.
const MarkupLiteral chart_script = R"js(
"use strict";
(() => {
  const tip = document.getElementById("tip");
  const short = (value, base, units) => {
    let power = 0;
    while (Math.abs(value) >= base && units.length - 1 > power) { value /= base; ++power; }
    return +value.toPrecision(4) + units[power];
  };
  const words = [(v) => +v.toPrecision(5), (v) => short(v, 1000, ["", "k", "M", "G", "T"]),
    (v) => short(v, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]), (v) => +v.toPrecision(4) + " s",
    (v) => +(100 * v).toPrecision(4) + " %"];
  for (const svg of document.querySelectorAll("svg.chart")) {
    const data = {};
    for (const key in svg.dataset) data[key] = +svg.dataset[key];
    const cursor = svg.querySelector(".cursor");
    const [width, height] = [488, 190];
    const lines = [...svg.querySelectorAll(".line")].map((path) => [path.dataset.name, path.getAttribute("d")
      .split(/[ML]/).filter((pair) => pair).map((pair) => pair.split(" ").map(Number))]);
    const value_at = (y) => {
      const value = data.y1 - y / height * (data.y1 - data.y0);
      return words[data.unit](data.log ? 10 ** value : value);
    };
    svg.addEventListener("mousemove", (event) => {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(cursor.getScreenCTM().inverse());
      let best = null;
      const rows = [];
      for (const [name, points] of lines) {
        if (!points.length) continue;
        const near = points.reduce((a, b) => Math.abs(a[0] - point.x) > Math.abs(b[0] - point.x) ? b : a);
        rows.push(name + "  " + value_at(near[1]));
        if (!best || Math.abs(best[0] - point.x) > Math.abs(near[0] - point.x)) best = near;
      }
      if (!best) return;
      cursor.setAttribute("d", "M" + best[0] + " 0V" + height);
      cursor.style.display = "inline";
      const x = data.x0 + best[0] / width * (data.x1 - data.x0);
      tip.hidden = false;
      tip.textContent = svg.parentElement.dataset.x + " " + Math.round(x).toLocaleString() + "\n" + rows.join("\n");
      tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
      tip.style.top = (event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 12 :
        event.clientY + 18) + "px";
    });
    svg.addEventListener("mouseleave", () => { tip.hidden = true; cursor.style.display = "none"; });
  }
})();
)js";

}  // namespace llmtrain
