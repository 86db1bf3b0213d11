/* What capsule's bindings cover, and the inline functions that it calls by names of its own. */
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_thread.h>
#include <numa.h>
#include <pcap.h>
#include "kni.h"

static const uint64_t CAPSULE_RSS_IP = RTE_ETH_RSS_IP;
static const uint64_t CAPSULE_RSS_TCP = RTE_ETH_RSS_TCP;
static const uint64_t CAPSULE_RSS_UDP = RTE_ETH_RSS_UDP;
static const uint64_t CAPSULE_RSS_SCTP = RTE_ETH_RSS_SCTP;
static const uint64_t CAPSULE_FAST_FREE = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;

int capsule_eal_init(int argc, char **argv);
int _rte_errno(void);
struct rte_mbuf *_rte_pktmbuf_alloc(struct rte_mempool *pool);
void _rte_pktmbuf_free(struct rte_mbuf *mbuf);
int _rte_pktmbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned count);
void _rte_mempool_put_bulk(struct rte_mempool *pool, void *const *objects, unsigned count);
uint16_t _rte_eth_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
uint16_t _rte_eth_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
