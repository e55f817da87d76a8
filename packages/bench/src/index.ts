export * from './apis/apis.js'
export * from './calibrate/costs.js'
export * from './calibrate/engine-rows.js'
export * from './calibrate/measure-steps.js'
export type * from './calibrate/model-host.js'
export * from './compare/compare-runs.js'
export * from './compare/machine-watch.js'
export * from './compare/start-server.js'
export * from './datasets/drawn-datasets.js'
export * from './datasets/open-dataset.js'
export { arrivals, traceTimes, type ArrivalOptions } from './load/jobs.js'
export * from './load/load-options.js'
export * from './load/reach-target.js'
export * from './load/run-load.js'
export * from './metrics/run-record.js'
export * from './metrics/summarize.js'
export * from './metrics/warnings.js'
export type { Axis } from './report/chart/frame.js'
export {
  chartStyle,
  rowPicture,
  type Piece,
  type Row,
  type RowChartOptions,
} from './report/chart/row-chart.js'
export * from './report/chrome-trace.js'
export * from './report/csv.js'
export * from './report/figures.js'
export * from './report/html/html-report.js'
export * from './report/run-result.js'
export { watchSteps, type StepBucket } from './report/step-history.js'
export * from './report/tables.js'
export * from './simulate/recorded-load.js'
export * from './simulate/simulate-policy.js'
export * from './simulate/simulated-load.js'
export * from './simulate/simulation-report.js'
export {
  blockMeans,
  distributionOf,
  estimate,
  estimateRatio,
  estimateSlope,
  type Distribution,
  type Estimate,
} from './statistics/statistics.js'
export * from './statistics/random.js'
export * from './tune/candidates.js'
export * from './tune/winner.js'
export * from './workload/prompt-text.js'
export {
  charactersPerToken,
  firstRequests,
  fitDataset,
  guessTokens,
  type Dataset,
  type FitOptions,
  type WorkItem,
} from './workload/work-item.js'
