import { renderConfigurationDocs } from './render-configuration-docs.js'
import { renderDefaultsDocs } from './render-defaults-docs.js'
import { renderErrorsDocs } from './render-errors-docs.js'
import { renderModelsDocs } from './models/render-models-docs.js'
import { renderStructuredOutputDocs } from './render-structured-output-docs.js'
import { renderMetricsDocs } from './render-metrics-docs.js'
import { renderPluginDocs } from './render-plugin-docs.js'
import {
  renderFiguresPicture,
  renderGoodputPicture,
  renderPausesPicture,
} from './render-pictures.js'
import { renderRecordingSchema } from './render-recording-schema.js'
import { renderSchedulingDocs } from './render-scheduling-docs.js'

/** A page of the repository that is generated from code. */
export interface GeneratedPage {
  readonly file: URL
  readonly render: () => string | Promise<string>
  /** Whether the rest of the page is written by hand. */
  readonly isPart?: boolean
}

const folder = new URL('../../docs/', import.meta.url)
const scheduling = new URL('scheduling.md', folder)
const plugins = new URL('writing-a-plugin.md', folder)
const defaults = new URL('defaults.md', folder)
const measured = new URL('../../benchmarks/scheduling.md', import.meta.url)

/** Every generated page. */
export const generatedDocs: readonly GeneratedPage[] = [
  { file: new URL('configuration.md', folder), render: renderConfigurationDocs },
  { file: defaults, render: () => renderDefaultsDocs(defaults), isPart: true },
  { file: new URL('errors.md', folder), render: renderErrorsDocs },
  { file: new URL('models.md', folder), render: renderModelsDocs },
  { file: new URL('structured-output.md', folder), render: renderStructuredOutputDocs },
  { file: new URL('metrics.md', folder), render: renderMetricsDocs },
  { file: scheduling, render: () => renderSchedulingDocs(scheduling), isPart: true },
  { file: plugins, render: () => renderPluginDocs(plugins), isPart: true },
  {
    file: new URL('images/policies-pauses.svg', folder),
    render: () => renderPausesPicture(measured),
  },
  {
    file: new URL('images/policies-goodput.svg', folder),
    render: () => renderGoodputPicture(measured),
  },
  {
    file: new URL('images/figures.svg', folder),
    render: () => renderFiguresPicture(new URL('why.md', folder)),
  },
  { file: new URL('recording.schema.json', folder), render: renderRecordingSchema },
]
