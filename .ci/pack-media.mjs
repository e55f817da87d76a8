// Makes a package of a folder with `libcllm-media.so`, which `cllm native build --media` has built here.
//
//   node .ci/pack-media.mjs FOLDER
import { execFileSync } from 'node:child_process'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { installedSource } from '../packages/backend-llamacpp/dist/native/build/index.js'

const folder = process.argv[2]
const root = new URL('..', import.meta.url)
const { version } = JSON.parse(readFileSync(new URL('packages/cli/package.json', root), 'utf8'))
const { platform, arch } = process
const manifest = {
  name: `@cllm/media-${platform}-${arch}`,
  version,
  description: 'What encodes images and sounds for cLLM: llama.cpp with libmtmd.',
  license: 'MIT',
  os: [platform],
  cpu: [arch],
  libc: ['glibc'],
  main: 'libcllm-media.so',
  files: ['libcllm-media.so', 'LICENSE-llama.cpp'],
  publishConfig: { access: 'public' },
}
writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`)
copyFileSync(new URL('LICENSE', root), join(folder, 'LICENSE'))
const clone = join(folder, '.source')
execFileSync('git', ['clone', '--quiet', '--bare', installedSource(), clone])
const licence = execFileSync('git', ['-C', clone, 'show', 'HEAD:LICENSE'])
writeFileSync(join(folder, 'LICENSE-llama.cpp'), licence)
