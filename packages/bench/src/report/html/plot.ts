import type { TopLevelSpec } from 'vega-lite'

const style = {
  background: 'transparent',
  font: 'system-ui, sans-serif',
  axis: {
    gridColor: '#ddd',
    labelColor: '#444',
    labelFontSize: 13,
    titleColor: '#222',
    titleFontSize: 13,
    titleFontWeight: 'normal',
  },
  legend: {
    orient: 'top',
    columns: 2,
    title: null,
    labelColor: '#222',
    labelFontSize: 13,
    labelLimit: 300,
  },
  view: { stroke: null },
} as const

/** Draws a plot as SVG, without a browser. */
export async function plot(spec: TopLevelSpec): Promise<string> {
  // The libraries take a second to load, so they are loaded only for plots.
  const [{ parse, View }, { compile }] = await Promise.all([import('vega'), import('vega-lite')])
  const { spec: compiled } = compile({
    config: style,
    width: 640,
    height: 280,
    ...spec,
  })
  const view = new View(parse(compiled), { renderer: 'none' })
  const svg = await view.toSVG()
  view.finalize()
  return svg
}
