import { Page } from '../shell/bar.js'
import { CopyButton } from './icon.js'

/** The tabs that a server can lack, and the command that starts one with them. */
const features = {
  keys: {
    title: 'Keys',
    why: 'This server was started without a key file, so there are no API keys to manage.',
    command:
      'cllm keys add ops --role admin --api-keys keys.json && cllm serve --api-keys keys.json',
  },
  usage: {
    title: 'Usage',
    why: 'This server was started without a usage folder, so it does not record usage.',
    command: 'cllm serve --usage usage',
  },
} as const

/** A feature that the server lists in the page's head when it has it. */
export type Feature = keyof typeof features

/** Whether the server has a feature, such as a protocol or keys: the page's head lists them. */
export function hasFeature(name: string): boolean {
  const listed = document.querySelector<HTMLMetaElement>('meta[name=cllm-features]')?.content
  return listed === undefined || listed === 'all' || listed.split(' ').includes(name)
}

/** Whether this server lacks the feature that a tab needs. */
export const isOff = (tab: string): tab is Feature => tab in features && !hasFeature(tab)

/** Explains an empty tab: its feature is off, and which command switches it on. */
export function SwitchedOff({ feature }: { readonly feature: Feature }) {
  const { title, why, command } = features[feature]
  return (
    <Page title={title}>
      <p>{why} To switch it on:</p>
      <div class="secret">
        <code>{command}</code>
        <CopyButton text={command} />
      </div>
    </Page>
  )
}
