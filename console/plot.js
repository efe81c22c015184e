// Lines over numbers or times, by uPlot, which is fetched when the first plot is drawn.

import { html, useEffect, useRef } from "./vendor/htm-preact.js";
import { color } from "./colors.js";

let library;

const load = () =>
  (library ??= new Promise((loaded, failed) => {
    const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: "vendor/uplot.css" });
    const script = Object.assign(document.createElement("script"), { src: "vendor/uplot.js", onload: () => loaded(window.uPlot) });
    script.onerror = () => failed(new Error("the plot library cannot be loaded"));
    document.head.append(style, script);
  }));

export const Plot = ({ label, across, x, lines, isTime }) => {
  const place = useRef();
  const drawn = useRef();
  const data = [x, ...lines.map((line) => line.values)];
  const shape = JSON.stringify([lines.map((line) => line.name), across, isTime]);
  useEffect(() => {
    let isGone = false;
    const draw = (Plot) => {
      if (isGone || !place.current) return;
      drawn.current?.destroy();
      const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
      drawn.current = new Plot(
        {
          width: Math.max(240, place.current.clientWidth - 30),
          height: 260,
          scales: { x: { time: !!isTime } },
          series: [{ label: across }, ...lines.map((line, index) => ({
            label: line.name, stroke: color(["--stroke", "--second", "--bad", "--good"][index % 4]), width: 1.6,
            points: { show: x.length < 80 },
          }))],
          axes: [axis, { ...axis, size: 64 }],
        },
        place.current.dataNow, place.current,
      );
    };
    const again = () => load().then(draw);
    again();
    const dark = matchMedia("(prefers-color-scheme: light)");
    dark.addEventListener("change", again);
    addEventListener("resize", again);
    return () => {
      isGone = true;
      dark.removeEventListener("change", again);
      removeEventListener("resize", again);
      drawn.current?.destroy();
      drawn.current = null;
    };
  }, [shape]);
  useEffect(() => {
    place.current.dataNow = data;
    drawn.current?.setData(data);
  });
  const set = (element) => {
    place.current = element;
    if (element) element.dataNow = data;
  };
  return html`<div class="panel plot" role="img" aria-label=${label} ref=${set}></div>`;
};
