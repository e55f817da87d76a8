// For pages, which have no files: what this leads to needs nothing of Node.
export {
  areaChart,
  stepChart,
  type ChartOptions,
  type Point,
  type Series,
} from './report/chart/charts.js'
